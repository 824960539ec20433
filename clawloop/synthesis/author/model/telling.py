"""A reply as an instruction of the domain route: read strictly against the brief that it was written from.

A reply is one line a goal, which begins with the goal's number. That each goal is told is checked by what can be known
of words: its gaps, at least half of the words of its phrases, those that say which of several is meant (lowest, last),
and whether it says no.
"""

import re
from collections.abc import Collection
from string import Formatter

from clawloop.synthesis.author.model.reading import ReadingError
from clawloop.synthesis.skills.instruct import Brief, Goal, expanded, goals, phrases

LONGEST = 600  # characters of a line
_LINE = re.compile(r"(\d{1,2})[.)]\s+(\S.*)")
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"\w+")
_FILLERS = frozenset(
    {"with", "that", "what", "which", "from", "this", "these", "have", "their", "there", "they", "them"}
)
_WHICH = re.compile(r"(?:\w{2,}est|first|last|most|least)")
_NO = frozenset({"no", "not", "never", "none", "nobody", "nothing", "without", "cannot", "neither", "nor", "t"})
_TOOLING = re.compile(
    r"--\w+|`|\b\w+_\w+\b|\brun\.py\b|\w\.(?:py|md|db|sql)\b|skills/|\b(?i:python3?|sqlite3?|sql)\b"
    r"|\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|VALUES)\b"
)


def sentences(reply: str, brief: Brief, names: Collection[str]) -> tuple[str, ...]:
    """The sentences of a reply, one a goal, in the reply's order; what a model thinks before `</think>` is none.

    Args:
        reply: of the model.
        brief: what it was asked to tell.
        names: of the tools and skills of the domain, which no instruction may say where the brief does not.

    Raises:
        ReadingError: the reply may not be an instruction; the fault is reply (not a line a goal), gaps, telling (a
            goal is not told) or leak (it says how, or something that the brief does not know).
    """
    told = goals(brief)
    lines = [line.strip() for line in reply.rpartition("</think>")[2].splitlines() if line.strip()]
    found = [_LINE.fullmatch(line) for line in lines]
    numbers = sorted(int(line[1]) for line in found if line)
    if None in found or numbers != list(range(1, len(told) + 1)):
        raise ReadingError(
            f"The reply must be {len(told)} lines, one for each goal, that begin '1. ' and so on.", "reply"
        )
    read = {int(line[1]): line[2] for line in found if line}
    for number, text in read.items():
        _check_line(text, f"Line {number}", brief, names)
    for number, goal in enumerate(told, 1):
        _check_goal(read[number], f"Line {number}", goal, [other for other in told if other is not goal])
    _check_whole(" ".join(read.values()), told)
    return tuple(text if text[-1] in ".!?" else f"{text}." for text in read.values())


def gaps(text: str) -> list[str]:
    """The names of a text's gaps.

    Raises:
        ReadingError: a brace opens or closes no plain gap.
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ReadingError(f"The braces cannot be read ({error}); write each gap as in its goal.", "gaps") from error
    for said, gap, form, change in parts:
        if "{" in said or "}" in said or form or change or gap == "":
            raise ReadingError("Braces stand only around the name of a gap, written as in its goal.", "gaps")
    return [gap for _, gap, _, _ in parts if gap is not None]


def _check_line(text: str, at: str, brief: Brief, names: Collection[str]) -> None:
    if len(text) > LONGEST or not text.isprintable():
        raise ReadingError(f"{at} must be plain text of at most {LONGEST} characters.", "reply")
    given = " ".join([brief.about, *(expanded(goal) for goal in brief.goals)])
    said, known = _plain(text), _plain(given)
    if tooling := _TOOLING.search(said):
        raise ReadingError(f"{at} says {tooling[0]!r}: an instruction tells what is to hold, and no tool.", "leak")
    own = {word.casefold() for word in _NAME.findall(known)}
    for word in _NAME.findall(said):
        if word in names and word.casefold() not in own:
            raise ReadingError(f"{at} says {word!r}, the name of a tool or a skill; say it in other words.", "leak")
        if any(letter.isdigit() for letter in word) and word.casefold() not in own:
            raise ReadingError(f"{at} says {word!r}, and no goal has that number; numbers stand in gaps.", "leak")


def _check_goal(text: str, at: str, goal: Goal, others: list[Goal]) -> None:
    mine, used = gaps(expanded(goal)), gaps(text)
    if foreign := [gap for gap in used if gap not in mine]:
        raise ReadingError(f"{at} has the gap {{{foreign[0]}}}, which its goal does not have.", "gaps")
    shared = {gap for other in others for gap in gaps(expanded(other))}
    if missing := [gap for gap in mine if gap not in used and gap not in shared]:
        raise ReadingError(f"{at} lacks the gap {{{missing[0]}}} of its goal.", "gaps")
    _check_words(text, goal.phrase, at)
    no, said = _says_no(goal.phrase), _says_no(text)
    if no and not said:
        raise ReadingError(f"{at} does not say no where its goal does.", "telling")
    if said and not _says_no(expanded(goal)):
        raise ReadingError(f"{at} says no where its goal does not.", "telling")


def _check_whole(text: str, told: list[Goal]) -> None:
    """What several goals share may be told once: its gaps, and the phrases of what is referred to."""
    used = gaps(text)
    for goal in told:
        if missing := [gap for gap in gaps(expanded(goal)) if gap not in used]:
            raise ReadingError(f"The gap {{{missing[0]}}} stands in no line.", "gaps")
        for phrase in phrases(goal):
            _check_words(text, phrase, "The text")


def _check_words(text: str, phrase: str, at: str) -> None:
    wanted, said = _stems(phrase), _stems(text)
    kept = [stem for stem in wanted if stem in said]
    lost = ", ".join(word for stem, word in wanted.items() if stem not in said)
    if 2 * len(kept) < len(wanted) or any(_WHICH.fullmatch(wanted[stem]) for stem in wanted.keys() - said.keys()):
        raise ReadingError(f"{at} must keep more of the words of {phrase!r}; it lacks {lost}.", "telling")


def _stems(text: str) -> dict[str, str]:
    """The first four letters of each longer word that is no filler, and the word."""
    words = [word.casefold() for word in _WORD.findall(_plain(text))]
    return {word[:4]: word for word in words if len(word) > 3 and word not in _FILLERS}


def _says_no(text: str) -> bool:
    return any(word.casefold() in _NO for word in _WORD.findall(_plain(text)))


def _plain(text: str) -> str:
    """A text without its gaps."""
    return re.sub(r"\{[^{}]*\}", " ", text)
