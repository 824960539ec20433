"""The scene of one task: what has been drawn so far, and how it becomes files, words, contract, answer and oracle."""

import hashlib
import json
import random
import re
from collections.abc import Callable
from typing import Any

from clawloop.synthesis.author.programs.table import Condition, Row, Table

OUTPUTS = "answer result tally outcome summary found digest recap brief figure findings note".split()
KEYS = "total value amount figure size score number level mark reading".split()
TAGS = "may june north spare old new main daily week third late early b2 c7 k4 a9".split()
TEXT_ROLES = ("category", "status", "site")
NUMBER_ROLES = ("n0", "n1", "n2")


class Degenerate(Exception):
    """This draw makes no fair task; another may."""


class Scene:
    """Draws from one generator of random numbers and collects what a task is made of.

    Args:
        rng: decides everything.
        params: the card's part (level, form, growth), the domain's vocabulary and the wordings.
    """

    def __init__(self, rng: random.Random, params: dict[str, Any]) -> None:
        self.rng, self.domain, self.wordings = rng, params["domain"], params["wordings"]
        self.form, self.level, self.growth = params["form"], params["level"], params["growth"]
        self.suffix = {"json": ".json", "csv": ".csv", "files": ".log", "report": ".md"}[params["form"]]
        self.files: dict[str, str] = {}
        self.sentences: list[str] = []
        self.decisions: list[list[str]] = []
        self.deliverables: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {}
        self.oracle: list[str] = []
        self._taken: list[str] = []

    def phrase(self, kind: str, **names: object) -> str:
        """One wording of a kind, filled in."""
        return str(self.rng.choice(self.wordings[kind]).format(**names))

    def say(self, kind: str, **names: object) -> None:
        """Add a sentence to the instruction."""
        self.sentences.append(self.phrase(kind, **names))

    def rule(self, name: str, text: str) -> None:
        """Declare a hidden decision, once."""
        if [name, text] not in self.decisions:
            self.decisions.append([name, text])

    def fresh(self, words: list[str]) -> str:
        """A word that nothing in this task has."""
        free = [word for word in words if word not in self._taken]
        if not free:
            raise Degenerate("no word is left")
        word = self.rng.choice(free)
        self._taken.append(word)
        return word

    def stem(self, words: list[str]) -> str:
        """A file name without its suffix, often with a tag."""
        word = self.fresh(words)
        return word if self.rng.random() < 0.4 else f"{word}_{self.rng.choice(TAGS)}"

    def source(self, role: str, suffix: str) -> str:
        """The path of an input: records, reference or log."""
        folder = f"{self.rng.choice(self.domain['folders'])}/" if self.rng.random() < 0.15 else ""
        return f"{folder}{self.stem([self.domain[role]])}{suffix}"

    def output(self, suffix: str) -> str:
        """The path of a deliverable."""
        return self.stem(OUTPUTS) + suffix

    def key(self) -> str:
        """The name of a value."""
        word = self.fresh(KEYS)
        return word if self.rng.random() < 0.5 else f"{self.domain['entity']}_{word}"

    def name(self, role: str) -> str:
        """The column of a role."""
        return str(self.domain[role][0] if role in TEXT_ROLES else self.domain["numbers"][int(role[1])][0])

    def ids(self, size: int) -> list[str]:
        """Entities, in order."""
        return [f"{self.domain['prefix']}{n}" for n in sorted(self.rng.sample(range(100, 999), size))]

    def word(self, role: str) -> Callable[[], str]:
        """Draws of a column of words, some values more often than others."""
        values = self.domain[role][1]
        weights = [self.rng.randint(1, 4) for _ in values]
        return lambda: self.rng.choices(values, weights)[0]

    def draws(self, role: str) -> Callable[[], str]:
        """Draws of a column."""
        if role in TEXT_ROLES:
            return self.word(role)
        _, low, high = self.domain["numbers"][int(role[1])]
        return lambda: str(self.rng.randint(low, high))

    def records(self, *roles: str, columns: int = 4, size: int = 0) -> Table:
        """A table with an entity a row, the columns asked for and others, in any order behind the entity."""
        spare = [name for name in TEXT_ROLES + NUMBER_ROLES if name not in roles]
        self.rng.shuffle(spare)
        chosen = [*roles, *spare[: max(0, columns - 1 - len(roles))]]
        self.rng.shuffle(chosen)
        entity = str(self.domain["entity"])
        rows: list[Row] = [{entity: name} for name in self.ids(size or self.rng.randint(24, 44))]
        for each in chosen:
            draw = self.draws(each)
            for row in rows:
                row[self.name(each)] = draw()
        return self.table(Table(self.source("records", ".csv"), [entity, *map(self.name, chosen)], rows))

    def table(self, table: Table) -> Table:
        """Put a table into the workspace; call it again where the rows have changed."""
        self.files[table.path] = table.text
        return table

    def intro(self, *tables: Table) -> None:
        """Say which columns the tables have."""
        for table in tables:
            self.say("intro", file=table.path, columns=",".join(table.columns))

    def condition(self, table: Table, role: str) -> Condition:
        """A filter on the column of a role, true for some rows and not for all."""
        name = self.name(role)
        field, named = table.field(name), table.named(name)
        if role in TEXT_ROLES:
            value = self.rng.choice(sorted(set(table.values(name))))
            return self.phrase("is", c=named, v=value), f'{field}=="{value}"', lambda row: row[name] == value
        numbers = sorted(map(int, table.values(name)))
        bound = numbers[int(len(numbers) * self.rng.uniform(0.3, 0.7))]
        if self.rng.random() < 0.5:
            return self.phrase("over", c=named, v=bound), f"{field}>{bound}", lambda row: int(row[name]) > bound
        return self.phrase("under", c=named, v=bound), f"{field}<{bound}", lambda row: int(row[name]) < bound

    def deliver(self, path: str, form: str, fields: dict[str, str], tolerance: float = 0.0) -> None:
        """Declare a deliverable in the contract."""
        item: dict[str, Any] = {"path": path, "form": form, "fields": fields}
        self.deliverables.append(item | ({"tolerance": tolerance} if tolerance else {}))

    def check(self, name: str, path: str, kind: str, **more: Any) -> None:
        """Have the verifier check a field; `more` says against which answer and how."""
        self.checks.append({"name": name, "path": path, "kind": kind, **more})

    def unchanged(self, rule: str = "inputs", paths: list[str] | None = None) -> None:
        """Declare and check that inputs stay as they are: these, or all."""
        kept = sorted(self.files if paths is None else paths)
        if kept:
            digests = {path: hashlib.sha256(self.files[path].encode()).hexdigest() for path in kept}
            self.rule(rule, "unchanged")
            self.check(rule, "", "same", files=digests)

    def result(self, verifier: str) -> dict[str, Any]:
        """The task as one object.

        Raises:
            Degenerate: an answer is zero, empty, a copy of an input, or can be read off the words.
        """
        contract = {"decisions": self.decisions, "deliverables": self.deliverables}
        words = " ".join(self.sentences)
        for value in self.answer.values():
            self._fair(value, f"{words} {json.dumps(contract)}")
        call = f"\n\nprint(json.dumps({{'fields': grade(json.loads({json.dumps(self.checks)!r}))}}))\n"
        return {
            "files": self.files,
            "instruction": words,
            "answer": self.answer,
            "contract": contract,
            "oracle": self.oracle,
            "verifier": verifier.rstrip() + call,
        }

    def _fair(self, value: Any, words: str) -> None:
        if isinstance(value, bool | None):
            return
        if isinstance(value, int | float):
            said = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", words)]
            if abs(value) < 3 or abs(float(value)) in said:
                raise Degenerate("the number is too small or is said")
        elif isinstance(value, str):
            if re.search(rf"\b{re.escape(value)}\b", words):
                raise Degenerate("the answer is said")
        elif value is not None:
            lines = [",".join(item) if isinstance(item, list) else item for item in value]
            texts = [text.splitlines() for text in self.files.values()]
            if len(lines) < 2 or any(sorted(lines) in (sorted(text), sorted(text[1:])) for text in texts):
                raise Degenerate("the list is too short or copies an input")


def make(seed: int, params: dict[str, Any], kinds: Callable[[str, int, str], list[Callable[[Scene], None]]]) -> Any:
    """build(seed): the first fair draw of the kind that the seed chooses."""
    kind = random.Random(f"{seed}/kind").choice(kinds(params["track"], params["level"], params["form"]))
    for attempt in range(300):
        scene = Scene(random.Random(f"{seed}/{attempt}"), params)
        try:
            kind(scene)
            return scene.result(params["verifier"])
        except Degenerate:
            continue
    raise SystemExit(f"no fair task in 300 draws of {kind.__name__}")
