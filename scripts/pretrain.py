"""Train the nano base model: 0.9 million parameters that have read requests and the commands that answer them.

The corpus is made by a grammar: a request in words over a file with made-up names, and one command line in reply.
Nothing of it comes from the task catalogue: other names, no contracts, no workspaces, no verifiers. So the result knows
the idioms of `awk`, `grep` and `sort` and how to copy a name, and knows neither the harness nor its tasks, which the
cold start shows it (see docs/paper_map.md, departures).

    python scripts/pretrain.py --out clawloop/store/nano
"""

import argparse
import copy
import json
import pydoc_data.topics
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
WORDS = sorted({w.lower() for text in pydoc_data.topics.topics.values() for w in re.findall(r"[A-Za-z]{3,10}", text)})
ORDINAL = ["first", "second", "third", "fourth", "fifth"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Names:
    """Draws identifiers: English words, words made up from syllables, and words made up from the tokenizer's pieces.

    The last kind makes every piece a thing to be copied, in any order.
    """

    def __init__(self, rng: random.Random, pieces: Sequence[str] = ()) -> None:
        self.rng, self.pieces = rng, pieces

    def word(self) -> str:
        roll = self.rng.random()
        if roll < 0.35:
            return self.rng.choice(WORDS)
        if self.pieces and roll < 0.65:
            return "".join(self.rng.choice(self.pieces) for _ in range(self.rng.randint(1, 3)))
        syllables = self.rng.randint(1, 3)
        word = "".join(self.rng.choice("bcdfghjklmnprstvwz") + self.rng.choice("aeiou") for _ in range(syllables))
        return word + self.rng.choice(["", "n", "r", "s", "t", "l"])

    def ident(self) -> str:
        return self.word() if self.rng.random() < 0.7 else f"{self.word()}{self.rng.choice('_-')}{self.word()}"

    def columns(self) -> list[str]:
        names: list[str] = []
        while len(names) < self.rng.choice([2, 3, 3, 4, 4, 5]):
            name = self.word() if self.rng.random() < 0.7 else f"{self.word()}_{self.word()}"
            if name not in names:
                names.append(name)
        return names

    def number(self) -> str:
        return self.rng.choice(
            [
                str(self.rng.randint(1, 99)),
                str(self.rng.randint(1, 999)),
                f"{self.rng.randint(0, 99)}.{self.rng.randint(1, 9)}",
            ]
        )

    def value(self) -> str:
        return self.ident() if self.rng.random() < 0.85 else f"{self.word()[0].upper()}{self.rng.randint(1, 999)}"


class Table:
    """A table that exists only as words: a file name and its columns."""

    def __init__(self, n: Names, key: str | None = None) -> None:
        self.file = (f"{n.ident()}/" if n.rng.random() < 0.25 else "") + n.ident() + ".csv"
        self.columns = n.columns()
        if key is not None:
            self.columns[0 if n.rng.random() < 0.6 else n.rng.randrange(len(self.columns))] = key
        self.n = n

    def index(self, column: str) -> int:
        return self.columns.index(column) + 1

    def says(self) -> str:
        header = ",".join(self.columns)
        return self.n.rng.choice(
            [
                f"{self.file} has columns {header}.",
                f"{self.file} has the columns {header}.",
                f"The file {self.file} holds {header}.",
                f"Columns of {self.file}: {header}.",
                f"{self.file} ({header}).",
                f"Given {self.file} with header {header}:",
                f"{self.file} lists {header}.",
            ]
        )

    def pick(self, k: int = 1) -> list[str]:
        return self.n.rng.sample(self.columns, k)

    def named(self, column: str) -> str:
        return f"{column} (${self.index(column)})"


def condition(n: Names, t: Table) -> tuple[str, str]:
    """A filter in words and in awk: one test, or two that must both hold."""
    words, test = single(n, t)
    if n.rng.random() < 0.3:
        more, other = single(n, t)
        return f"{words} {n.rng.choice(['and', 'and also', 'and'])} {more}", f"{test}&&{other}"
    return words, test


def single(n: Names, t: Table) -> tuple[str, str]:
    """One test in words and in awk."""
    (c,) = t.pick()
    i, m = t.index(c), t.named(c)
    kind = n.rng.randrange(6)
    if kind < 3:
        v = n.value()
        words = [
            f"whose {m} is {v}",
            f"where {m} is {v}",
            f"with {m} {v}",
            f"having {m} equal to {v}",
            f"with {m} = {v}",
        ]
        return n.rng.choice(words), f'${i}=="{v}"'
    x = n.number()
    if kind == 3:
        words = [
            f"whose {m} is over {x}",
            f"where {m} is above {x}",
            f"with {m} greater than {x}",
            f"with {m} more than {x}",
        ]
        return n.rng.choice(words), f"${i}>{x}"
    if kind == 4:
        words = [
            f"whose {m} is under {x}",
            f"where {m} is below {x}",
            f"with {m} less than {x}",
            f"with {m} at most {x}",
        ]
        k = n.rng.randrange(4)
        return words[k], f"${i}<{'=' if k == 3 else ''}{x}"
    if len(t.columns) < 3:
        return f"where {m} is at least {x}", f"${i}>={x}"
    a, b = t.pick(2)
    p, q = t.named(a), t.named(b)
    words = [
        f"where {p} differs from {q}",
        f"whose {p} is not {q}",
        f"in which {p} and {q} differ",
        f"where {p} does not match {q}",
    ]
    return n.rng.choice(words), f"${t.index(a)}!=${t.index(b)}"


def scalar(n: Names, t: Table) -> tuple[str, str]:
    """A request for one number over one file, and the command that prints it."""
    (c,) = t.pick()
    i, f, m = t.index(c), t.file, t.named(c)
    kind = n.rng.randrange(10)
    if kind == 0:
        ask = n.rng.choice(
            ["How many data rows does it have?", "Count its rows without the header.", "Find the number of records."]
        )
        return ask, f"awk -F, 'NR>1{{n++}} END{{print n+0}}' {f}"
    if kind in (1, 2, 3):
        words, test = condition(n, t)
        ask = n.rng.choice(
            [
                "Count the rows",
                "How many rows are there",
                "Find the number of rows",
                "Count the records",
                "Give the count of entries",
            ]
        )
        return f"{ask} {words}.", f"awk -F, 'NR>1&&{test}{{n++}} END{{print n+0}}' {f}"
    if kind in (4, 5):
        ask = n.rng.choice(
            [
                f"Add up {m}",
                f"Sum the {m} column",
                f"What is the total {m}",
                f"Total {m} over all rows",
                f"Find the sum of {m}",
            ]
        )
        return f"{ask}.", f"awk -F, 'NR>1{{s+=${i}}} END{{print s+0}}' {f}"
    if kind == 6:
        words, test = condition(n, t)
        ask = n.rng.choice(
            [
                f"Add up {m} of the rows",
                f"Sum {m} over rows",
                f"Total {m} for entries",
                f"Find the sum of {m} over rows",
            ]
        )
        return f"{ask} {words}.", f"awk -F, 'NR>1&&{test}{{s+=${i}}} END{{print s+0}}' {f}"
    if kind == 7:
        ask = n.rng.choice(
            [
                f"What is the mean {m} to two decimals",
                f"Average {m}, 2 decimals",
                f"Find the average of {m} rounded to 2 places",
            ]
        )
        return f"{ask}.", f"awk -F, 'NR>1{{s+=${i};n++}} END{{printf \"%.2f\\n\",s/n}}' {f}"
    if kind == 8:
        big = n.rng.random() < 0.5
        ask = n.rng.choice(
            [
                f"Find the {'largest' if big else 'smallest'} {m}",
                f"What is the {'highest' if big else 'lowest'} {m}",
                f"Get the {'maximum' if big else 'minimum'} of {m}",
            ]
        )
        return f"{ask}.", f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -n{'r' if big else ''} | head -n 1"
    ask = n.rng.choice(
        [f"How many distinct {m} values are there", f"Count the different {m}", f"Count unique values of {m}"]
    )
    return f"{ask}.", f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -u | wc -l"


def joined(n: Names, a: Table) -> tuple[str, str]:
    """A request for one number over two files with a common key."""
    (key,) = a.pick()
    b = Table(n, key)
    ca = n.rng.choice([c for c in a.columns if c != key] or [key])
    cb = n.rng.choice([c for c in b.columns if c != key] or [key])
    ka, kb, ia, ib = a.index(key), b.index(key), a.index(ca), b.index(cb)
    head, tail = b.says(), f"{b.file} {a.file}"
    kind = n.rng.randrange(4)
    if kind == 0:
        ask = f"Join them on {key} (${ka} and ${kb}) and sum {a.named(ca)} times {b.named(cb)}."
        return (
            f"{head} {ask}",
            f"awk -F, 'NR==FNR{{m[${kb}]=${ib};next}} FNR>1{{s+=${ia}*m[${ka}]}} END{{print s+0}}' {tail}",
        )
    if kind == 1:
        ask = n.rng.choice(
            [
                f"Count the rows of {a.file} whose {a.named(key)} is missing from {b.file} (${kb}).",
                f"How many {a.named(key)} of {a.file} are not in {b.file} (${kb})?",
            ]
        )
        return (
            f"{head} {ask}",
            f"awk -F, 'NR==FNR{{m[${kb}]=1;next}} FNR>1&&!(${ka} in m){{n++}} END{{print n+0}}' {tail}",
        )
    if kind == 2:
        ask = f"Matched by {key} (${ka} and ${kb}), count where {a.named(ca)} of {a.file} differs from {b.named(cb)} of {b.file}."
        return (
            f"{head} {ask}",
            f"awk -F, 'NR==FNR{{m[${kb}]=${ib};next}} FNR>1&&(${ka} in m)&&${ia}!=m[${ka}]{{n++}} END{{print n+0}}' {tail}",
        )
    v = n.value()
    ask = f"Matched by {key} (${ka} and ${kb}), sum {a.named(ca)} of {a.file} where {b.named(cb)} in {b.file} is {v}."
    return (
        f"{head} {ask}",
        f"awk -F, 'NR==FNR{{m[${kb}]=${ib};next}} FNR>1&&m[${ka}]==\"{v}\"{{s+=${ia}}} END{{print s+0}}' {tail}",
    )


def stored(n: Names, ask: str, command: str) -> tuple[str, str]:
    """A number that is to be written to a file, as text, as JSON, or as a report with a sidecar."""
    kind = n.rng.randrange(4)
    out, key = n.ident(), n.ident()
    if kind == 0:
        ext = n.rng.choice(["txt", "csv"])
        return f"{ask} Write it to {out}.{ext}.", f"{command} > {out}.{ext}"
    if kind in (1, 2):
        words = n.rng.choice(
            [
                f'Write {{"{key}": N}} to {out}.json.',
                f"Save it as {key} in {out}.json.",
                f"Store it in {out}.json under the key {key}.",
            ]
        )
        return f"{ask} {words}", f'echo "{{\\"{key}\\": $({command})}}" > {out}.json'
    ext = n.rng.choice(["txt", "md"])
    words = f"Write the line {key}: N to {out}.{ext} and {key} as JSON to {out}.json."
    return f"{ask} {words}", f'n=$({command}); echo "{key}: $n" > {out}.{ext}; echo "{{\\"{key}\\": $n}}" > {out}.json'


def listing(n: Names, t: Table) -> tuple[str, str]:
    """Rows or values of one file, or of two: words without a full stop, and a command that prints them."""
    (c,) = t.pick()
    m, i, f = t.named(c), t.index(c), t.file
    kind = n.rng.randrange(9)
    words, test = condition(n, t)
    if kind in (0, 1):
        ask = [f"Write the {m} of rows {words}", f"List {m} for rows {words}", f"Take the {m} of every row {words}"]
        return n.rng.choice(ask), f"awk -F, 'NR>1&&{test}{{print ${i}}}' {f}"
    if kind in (2, 3):
        ask = [
            f"Keep the header and the rows {words}",
            f"Copy rows {words}, with the header",
            f"Filter rows {words}, header first",
        ]
        return n.rng.choice(ask), f"awk -F, 'NR==1||{test}' {f}"
    if kind == 4:
        ask = [f"Write each {m} once, sorted", f"List the distinct {m} in order", f"Take the sorted unique {m}"]
        if n.rng.random() < 0.5:
            return f"{n.rng.choice(ask)}, for rows {words}", f"awk -F, 'NR>1&&{test}' {f} | cut -d, -f{i} | sort -u"
        return n.rng.choice(ask), f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -u"
    if kind in (5, 6):
        (d,) = t.pick()
        ask = [
            f"Sum {t.named(d)} for each {m}, sorted",
            f"Write the total {t.named(d)} per {m}, sorted",
            f"Total {t.named(d)} by {m}, sorted",
        ]
        return n.rng.choice(
            ask
        ), f"awk -F, 'NR>1{{s[${i}]+=${t.index(d)}}} END{{for(k in s) print k\",\"s[k]}}' {f} | sort"
    if kind == 7:
        ask = [f"Sort the rows by {m} without the header", f"Order its data rows by {m}"]
        return n.rng.choice(ask), f"awk -F, 'NR>1' {f} | sort -t, -k{i},{i}"
    b = Table(n, c)
    ask = [
        f"Write the {m} of {f} that are missing from {b.file} (${b.index(c)})",
        f"List every {m} in {f} but not in {b.file} (${b.index(c)})",
    ]
    return (
        f"{b.says()} {n.rng.choice(ask)}",
        f"awk -F, 'NR==FNR{{m[${b.index(c)}]=1;next}} FNR>1&&!(${i} in m){{print ${i}}}' {b.file} {f}",
    )


def listed_in(n: Names, ask: str, command: str) -> tuple[str, str]:
    """Lines that are to be written to a file, or to be counted, or both."""
    out, kind = n.ident() + n.rng.choice([".csv", ".txt"]), n.rng.randrange(5)
    if kind < 3:
        words = [
            f"{ask}. Put that in {out}.",
            f"{ask} into {out}.",
            f"{ask}. Save the lines as {out}.",
            f"{ask}, in {out}.",
        ]
        return n.rng.choice(words), f"{command} > {out}"
    if kind == 3:
        words = [
            f"{ask}; how many lines is that?",
            f"{ask}, and count those lines.",
            f"{ask}. Find the number of lines.",
        ]
        return stored(n, n.rng.choice(words), f"{command} | wc -l")
    more = n.ident() + ".txt"
    words = [
        f"{ask} into {out}. Put the number of its lines in {more}.",
        f"{ask}, in {out}, and count its lines into {more}.",
    ]
    return n.rng.choice(words), f"{command} > {out}; wc -l < {out} > {more}"


def plain(n: Names) -> tuple[str, str]:
    """A request about files as such: lines, words, folders, names."""
    f, g, d = (
        n.ident() + n.rng.choice([".txt", ".log", ".csv", ".md"]),
        n.ident() + n.rng.choice([".txt", ".log", ".csv"]),
        n.ident(),
    )
    w, ext, k = n.value(), n.rng.choice(["csv", "txt", "log", "md", "json"]), n.rng.randint(1, 9)
    r = n.rng.choice
    return r(
        [
            lambda: (
                r([f"Count the lines of {f} into {g}.", f"Write how many lines {f} has to {g}."]),
                f"wc -l < {f} > {g}",
            ),
            lambda: (
                r([f"Count lines of {f} with {w} into {g}.", f"How many lines of {f} contain {w}? Write it to {g}."]),
                f"grep -c {w} {f} > {g}",
            ),
            lambda: (
                r(
                    [
                        f"Write the lines of {f} that contain {w} to {g}.",
                        f"Copy every line of {f} mentioning {w} into {g}.",
                    ]
                ),
                f"grep {w} {f} > {g}",
            ),
            lambda: (
                r(
                    [
                        f"Drop the lines of {f} with {w} and write the rest to {g}.",
                        f"Write the lines of {f} without {w} to {g}.",
                    ]
                ),
                f"grep -v {w} {f} > {g}",
            ),
            lambda: (r([f"Sort {f} into {g}.", f"Write the lines of {f} in order to {g}."]), f"sort {f} > {g}"),
            lambda: (
                r(
                    [
                        f"Merge {f} and {d}.txt into {g}, sorted, each line once.",
                        f"Put the sorted union of {f} and {d}.txt into {g}.",
                    ]
                ),
                f"sort -u {f} {d}.txt > {g}",
            ),
            lambda: (
                r([f"Append {d}.txt to {f} as {g}.", f"Join {f} and {d}.txt end to end in {g}."]),
                f"cat {f} {d}.txt > {g}",
            ),
            lambda: (
                r([f"Write the first {k} lines of {f} to {g}.", f"Put the top {k} lines of {f} in {g}."]),
                f"head -n {k} {f} > {g}",
            ),
            lambda: (
                r([f"Write the last {k} lines of {f} to {g}.", f"Put the final {k} lines of {f} in {g}."]),
                f"tail -n {k} {f} > {g}",
            ),
            lambda: (r([f"Rename {f} to {g}.", f"Give {f} the name {g}."]), f"mv {f} {g}"),
            lambda: (r([f"Copy {f} to {g}.", f"Make a copy of {f} named {g}."]), f"cp {f} {g}"),
            lambda: (r([f"Delete {f}.", f"Remove the file {f}."]), f"rm {f}"),
            lambda: (
                r([f"Make a folder {d} and move {f} into it.", f"Move {f} into the new folder {d}."]),
                f"mkdir -p {d} && mv {f} {d}/",
            ),
            lambda: (
                r([f"Move every {ext} file into the folder {d}.", f"Create {d} and put all {ext} files there."]),
                f"mkdir -p {d} && mv *.{ext} {d}/",
            ),
            lambda: (
                r([f"Copy all {ext} files to the folder {d}.", f"Create {d} with a copy of each {ext} file."]),
                f"mkdir -p {d} && cp *.{ext} {d}/",
            ),
            lambda: (
                r(
                    [
                        f"Move every file that contains {w} into the folder {d}.",
                        f"Put the files mentioning {w} into a new folder {d}.",
                    ]
                ),
                f"mkdir -p {d} && mv $(grep -l {w} *) {d}/",
            ),
            lambda: (r([f"Delete every {ext} file.", f"Remove all {ext} files."]), f"rm *.{ext}"),
            lambda: (r([f"Create the folders {d} and {w}.", f"Make two folders, {d} and {w}."]), f"mkdir -p {d} {w}"),
            lambda: (
                r([f"In {f} replace {d} by {w}.", f"Change {d} to {w} everywhere in {f}."]),
                f"sed -i 's/{d}/{w}/g' {f}",
            ),
        ]
    )()


def columns(n: Names, t: Table) -> tuple[str, str]:
    """A short request that asks for little but the place of a column."""
    f, kind = t.file, n.rng.randrange(4)
    a, b = (t.pick(2) * 2)[:2]
    words, test = condition(n, t)
    if kind == 0:
        return f"{n.rng.choice(['Print', 'Show', 'Give'])} {t.named(a)}.", f"cut -d, -f{t.index(a)} {f}"
    if kind == 1:
        return (
            f"{n.rng.choice(['Print', 'Show'])} {t.named(a)} and {t.named(b)}.",
            f"awk -F, '{{print ${t.index(a)},${t.index(b)}}}' {f}",
        )
    if kind == 2:
        return (
            f"{n.rng.choice(['Print', 'Show', 'List'])} {t.named(a)} of rows {words}.",
            f"awk -F, 'NR>1&&{test}{{print ${t.index(a)}}}' {f}",
        )
    return f"{n.rng.choice(['Print', 'Show', 'Keep'])} rows {words}.", f"awk -F, '{test}' {f}"


def copied(n: Names) -> tuple[str, str]:
    """A request that names two to six things, and a command in which they all come again."""
    things = [n.ident() + n.rng.choice(["", "", ".csv", ".txt", ".json"]) for _ in range(n.rng.randint(2, 6))]
    verb, command = n.rng.choice([("Say", "echo"), ("Read", "cat"), ("Make", "mkdir -p"), ("Touch", "touch")])
    said = n.rng.choice([" ", ", ", " and "]).join(things)
    return f"{verb} {said}.", f"{command} {' '.join(things)}"


def aside(n: Names, request: str) -> str:
    """A line that asks for nothing and names some things of the request again."""
    said = re.findall(r"[a-z][a-z_./-]+[a-z]", request)

    def some(most: int) -> str:
        draw = [n.word, n.ident, n.number, lambda: n.rng.choice(said), lambda: n.rng.choice(said)]
        return " ".join(n.rng.choice(draw)() for _ in range(n.rng.randint(1, most)))

    shape = n.rng.choice(["{a}: {b}", "{a}: {b}", "{a} ({b}: {c})", "{b} ({c})", "{b}", "{a}={c}"])
    parts = [shape.format(a=n.word(), b=some(5), c=some(2)) for _ in range(n.rng.randint(1, 3))]
    return f"{n.word().capitalize()}: {n.rng.choice(['; ', ', ', '. ']).join(parts)}."


def listed(n: Names, request: str) -> str:
    """Some files, those of the request among them."""
    files = [f"{n.ident()}.{n.rng.choice(['csv', 'txt', 'log', 'md', 'json'])}" for _ in range(n.rng.randint(1, 4))]
    files += [name for name in re.findall(r"[a-z_-]+\.[a-z]{2,4}", request) if n.rng.random() < 0.7]
    n.rng.shuffle(files)
    return f"{n.rng.choice(['There are', 'Files:', 'Here are', 'The directory has'])} {' '.join(files)}."


def example(n: Names, simple: float) -> list[tuple[str, str]]:
    """One to three requests about the same table, each with its command; a share of them only to be copied."""
    if n.rng.random() < simple:
        return [copied(n)]
    if n.rng.random() < 0.25:
        turns = [plain(n) for _ in range(n.rng.choice([1, 1, 2]))]
        if n.rng.random() < 0.5:
            turns[0] = (f"{listed(n, turns[0][0])} {turns[0][0]}", turns[0][1])
    else:
        t = Table(n)
        ask = [
            lambda: columns(n, t),
            lambda: stored(n, *scalar(n, t)),
            lambda: stored(n, *joined(n, t)),
            lambda: listed_in(n, *listing(n, t)),
        ]
        turns = [n.rng.choices(ask, [0.1, 0.4, 0.1, 0.4])[0]() for _ in range(n.rng.choice([1, 1, 2, 3]))]
        turns[0] = (f"{t.says()} {turns[0][0]}", turns[0][1])
    for i, (request, command) in enumerate(turns):
        lines = [aside(n, request) for _ in range(n.rng.choice([0, 0, 0, 1, 2]))]
        turns[i] = ("\n".join([request, *lines]), command)
    return turns


class Muon:
    """Momentum, orthogonalised by five Newton-Schulz steps (Jordan, 2024), in fp32: bf16 is emulated on many CPUs.

    Matrices of one shape are stacked and stepped together.
    """

    def __init__(self, matrices: list[torch.nn.Parameter], momentum: float = 0.95, decay: float = 0.01) -> None:
        self.momentum, self.decay, self.lr = momentum, decay, 0.0
        shapes = sorted({tuple(p.shape) for p in matrices})
        self.stacks = [[p for p in matrices if tuple(p.shape) == shape] for shape in shapes]
        self.moments = [torch.zeros(len(stack), *stack[0].shape) for stack in self.stacks]

    @torch.no_grad()
    def step(self) -> None:
        for stack, moment in zip(self.stacks, self.moments, strict=True):
            gradient = torch.stack([p.grad for p in stack if p.grad is not None])
            moment.lerp_(gradient, 1 - self.momentum)
            x = gradient.lerp(moment, self.momentum)
            tall = x.shape[1] > x.shape[2]
            x = x.mT if tall else x
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.mT
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = (x.mT if tall else x) * max(1.0, stack[0].shape[0] / stack[0].shape[1]) ** 0.5
            for p, update in zip(stack, x, strict=True):
                p.mul_(1 - self.lr * self.decay).sub_(update, alpha=self.lr)
                p.grad = None


def document(n: Names, turns: list[tuple[str, str]]) -> list[str]:
    """ChatML, as prompts and replies by turns; every other one begins with a system message of random words."""
    parts = []
    for request, command in turns:
        parts += [
            f"<|im_start|>user\n{request}<|im_end|>\n<|im_start|>assistant\n",
            f"```bash\n{command}\n```<|im_end|>",
        ]
    if n.rng.random() < 0.5:
        words = " ".join(n.rng.choice(WORDS) for _ in range(n.rng.randint(4, 20)))
        parts[0] = f"<|im_start|>system\n{words.capitalize()}.<|im_end|>\n{parts[0]}"
    return [parts[0], *("\n" * (i % 2) + part for i, part in enumerate(parts[1:]))]


def train_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE over the corpus, in which a word has the same tokens wherever it stands.

    No piece mixes letters with blanks or signs, and digits are apart, so that a name is copied token by token.
    """
    n = Names(random.Random(1))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("[A-Za-z]+|[0-9]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(("".join(document(n, example(n, simple=0.0))) for _ in range(10_000)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = CHATML
    return fast


def echoes(rng: random.Random, vocabulary: int, longest: int, size: int = 1_000) -> tuple[Tensor, Tensor]:
    """A batch of (ids_BT, weight_BT) of some `size` tokens: random tokens, a part of which is said twice.

    The first lesson in copying. Copying a token means to find where it stood and to take what followed, and a network
    learns that from short echoes in hundreds of steps; from requests alone it had not begun after 900.
    """
    length = rng.randint(2, longest)
    before, between = rng.randint(0, length), rng.randint(0, length)
    rows = max(8, size // (2 * length + before + between + 3))
    noise_BT = torch.randint(8, vocabulary, (rows, before + length + between))
    first_BT, said_BT, second_BT = noise_BT.split([before, length, between], dim=1)
    open_B1, close_B1 = torch.full((rows, 1), 1), torch.full((rows, 1), 2)
    echo_BT = torch.cat([open_B1, said_BT, close_B1], 1)
    ids_BT = torch.cat([first_BT, echo_BT, second_BT, echo_BT], 1)
    weight_BT = torch.zeros(ids_BT.shape)
    weight_BT[:, -length - 2 : -1] = 1.0
    return ids_BT, weight_BT


def letters(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The tokenizer's pieces of one to five small letters."""
    return sorted(piece for piece in tokenizer.get_vocab() if re.fullmatch(r"[a-z]{1,5}", piece))


def batches(
    tokenizer: PreTrainedTokenizerFast, n: Names, size: int, simple: Callable[[], float]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of (ids_BT, weight_BT), length-sorted in pools of sixteen batches.

    The weight is that of predicting the next token: 1 in a reply, 4 where that is the number of a column, 0 elsewhere.
    """
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    digits = {i for i, piece in enumerate(pieces) if piece in "12345"}
    leads = {i for i, piece in enumerate(pieces) if piece.endswith("$") or piece in "fk"}
    while True:
        rows = []
        for _ in range(size * 16):
            row: list[tuple[int, float]] = []
            for i, ids in enumerate(tokenizer(document(n, example(n, simple())))["input_ids"]):
                for token, before in zip(ids, [0, *ids], strict=False):
                    row.append((token, 0.0 if i % 2 == 0 else 4.0 if token in digits and before in leads else 1.0))
            rows.append(row)
        rows.sort(key=len)
        groups = [rows[i : i + size] for i in range(0, len(rows), size)]
        n.rng.shuffle(groups)
        for group in groups:
            width = max(map(len, group))
            ids_BT = torch.full((len(group), width), tokenizer.pad_token_id)
            weight_BT = torch.zeros((len(group), width))
            for b, row in enumerate(group):
                ids_BT[b, : len(row)] = torch.tensor([token for token, _ in row])
                weight_BT[b, : len(row) - 1] = torch.tensor([weight for _, weight in row[1:]])
            yield ids_BT, weight_BT


@torch.no_grad()
def exact(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, count: int = 128) -> tuple[float, float]:
    """The share of held-out documents whose replies are the arg-max at every position, and their mean probability."""
    right: list[bool] = []
    likely: list[float] = []
    n = Names(random.Random(2), letters(tokenizer))
    for ids_BT, weight_BT in batches(tokenizer, n, 32, lambda: 0.0):
        asked_BT = weight_BT[:, :-1] > 0
        logprob_BTV = model(ids_BT).logits[:, :-1].log_softmax(-1)
        logprob_BT = logprob_BTV.gather(-1, ids_BT[:, 1:, None])[..., 0]
        right += ((logprob_BTV.argmax(-1) == ids_BT[:, 1:]) | ~asked_BT).all(1).tolist()
        likely += (logprob_BT * asked_BT).sum(1).exp().tolist()
        if len(right) >= count:
            return sum(right) / len(right), sum(likely) / len(likely)
    raise AssertionError("batches never end")


def keep(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, record: dict[str, object]) -> None:
    """Write weights (bf16), tokenizer and a record of how they were made."""
    out.mkdir(parents=True, exist_ok=True)
    greedy, sampled = exact(model, tokenizer, 256)
    record |= {"exact": round(greedy, 4), "sampled": round(sampled, 4), "torch": torch.__version__}
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "made.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record), flush=True)


def main() -> None:
    """Train for a given number of minutes and write the model, its tokenizer and a record of how it was made."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--minutes", type=float, default=24.0)
    cli.add_argument("--out", type=Path, required=True)
    cli.add_argument("--batch", type=int, default=16)
    cli.add_argument("--width", type=int, default=128)
    cli.add_argument("--layers", type=int, default=4)
    cli.add_argument("--vocabulary", type=int, default=1024)
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--start", type=Path, default=None, help="go on from this model and its tokenizer")
    args = cli.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.start) if args.start else train_tokenizer(args.vocabulary)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=args.width,
        intermediate_size=args.width * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 32,
        num_key_value_heads=args.width // 32,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    if args.start:
        model = Qwen3ForCausalLM.from_pretrained(args.start, dtype=torch.float32)
    hidden = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon, adam = Muon(hidden), torch.optim.AdamW(rest, weight_decay=0.0, betas=(0.9, 0.95))
    size = sum(p.numel() for p in model.parameters())
    print(f"{size:,} parameters, {len(tokenizer)} tokens")
    started, step, tokens, shown = time.monotonic(), 0, 0, time.monotonic()
    longest, mean, done = 5, 7.0, 0.0
    rng = random.Random(args.seed + 10)
    requests = batches(tokenizer, Names(rng, letters(tokenizer)), args.batch, lambda: max(0.1, 0.6 - 2 * done))
    while (done := (time.monotonic() - started) / (args.minutes * 60)) < 1:
        echoing = longest < 40
        ids, weight = echoes(rng, len(tokenizer), longest) if echoing else next(requests)
        scale = min(1.0, (step + 1) / 50) * (1.0 if done < 0.4 else (1 - done) / 0.6)
        muon.lr = 0.02 * scale
        adam.param_groups[0]["lr"] = 1e-2 * scale
        predicts = weight[:, :-1] > 0
        states = model.model(ids, use_cache=False).last_hidden_state[:, :-1][predicts]
        losses = torch.nn.functional.cross_entropy(model.lm_head(states), ids[:, 1:][predicts], reduction="none")
        loss = (losses * weight[:, :-1][predicts]).sum() / weight.sum()
        mean += 0.1 * (loss.item() - mean)
        if echoing and mean < 0.5 and step % 10 == 0:
            longest += 1 + longest // 8
        loss.backward()
        muon.step()
        adam.step()
        adam.zero_grad()
        step, tokens = step + 1, tokens + ids.numel()
        if time.monotonic() - shown > 120:
            shown = time.monotonic()
            keep(model, tokenizer, args.out, {"parameters": size, "steps": step, "partial": True})
            print(f"step {step} {shown - started:.0f}s tokens {tokens:,} loss {mean:.4f} echoes {longest}", flush=True)
    keep(
        model,
        tokenizer,
        args.out,
        {
            "parameters": size,
            "steps": step,
            "tokens": tokens,
            "minutes": args.minutes,
            "seed": args.seed,
        },
    )


if __name__ == "__main__":
    main()
