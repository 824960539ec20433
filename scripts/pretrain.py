"""Train the nano base model: a 1M-parameter Llama that has read requests and the shell commands that answer them.

The corpus is made by a grammar: a request in words over a file with made-up names, and one command line in reply.
Nothing of it comes from the task catalogue: other sentences, other names, no contracts, no workspaces, no verifiers.
So the result knows the idioms of `awk`, `grep` and `sort` and how to copy a name, and knows neither the harness nor
its tasks; on the catalogue it scores next to nothing until the cold start (see docs/paper_map.md, departures).

    python scripts/pretrain.py --minutes 40 --out clawloop/store/nano
"""

import argparse
import copy
import json
import pydoc_data.topics
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
WORDS = sorted({w.lower() for text in pydoc_data.topics.topics.values() for w in re.findall(r"[A-Za-z]{3,10}", text)})
ORDINAL = ["first", "second", "third", "fourth", "fifth"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Names:
    """Draws identifiers, half of them English words and half of them made up from syllables."""

    def __init__(self, rng: random.Random, short: float = 0.4) -> None:
        self.rng, self.short = rng, short

    def word(self) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(WORDS)
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
    """A filter in words and in awk."""
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


def scalar(n: Names) -> tuple[str, str]:
    """A request for one number over one file, and the command that prints it."""
    t = Table(n)
    (c,) = t.pick()
    i, f, m = t.index(c), t.file, t.named(c)
    kind = n.rng.randrange(10)
    if kind == 0:
        ask = n.rng.choice(
            ["How many data rows does it have?", "Count its rows without the header.", "Find the number of records."]
        )
        return f"{t.says()} {ask}", f"awk -F, 'NR>1{{n++}} END{{print n+0}}' {f}"
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
        return f"{t.says()} {ask} {words}.", f"awk -F, 'NR>1&&{test}{{n++}} END{{print n+0}}' {f}"
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
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1{{s+=${i}}} END{{print s+0}}' {f}"
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
        return f"{t.says()} {ask} {words}.", f"awk -F, 'NR>1&&{test}{{s+=${i}}} END{{print s+0}}' {f}"
    if kind == 7:
        ask = n.rng.choice(
            [
                f"What is the mean {m} to two decimals",
                f"Average {m}, 2 decimals",
                f"Find the average of {m} rounded to 2 places",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1{{s+=${i};n++}} END{{printf \"%.2f\\n\",s/n}}' {f}"
    if kind == 8:
        big = n.rng.random() < 0.5
        ask = n.rng.choice(
            [
                f"Find the {'largest' if big else 'smallest'} {m}",
                f"What is the {'highest' if big else 'lowest'} {m}",
                f"Get the {'maximum' if big else 'minimum'} of {m}",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -n{'r' if big else ''} | head -n 1"
    ask = n.rng.choice(
        [f"How many distinct {m} values are there", f"Count the different {m}", f"Count unique values of {m}"]
    )
    return f"{t.says()} {ask}.", f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -u | wc -l"


def joined(n: Names) -> tuple[str, str]:
    """A request for one number over two files with a common key."""
    key = n.word()
    a, b = Table(n, key), Table(n, key)
    ca = n.rng.choice([c for c in a.columns if c != key] or [key])
    cb = n.rng.choice([c for c in b.columns if c != key] or [key])
    ka, kb, ia, ib = a.index(key), b.index(key), a.index(ca), b.index(cb)
    head, tail = f"{a.says()} {b.says()}", f"{b.file} {a.file}"
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


def stored(n: Names, make: Callable[[Names], tuple[str, str]]) -> tuple[str, str]:
    """A number that is to be written to a file, as text, as JSON, or as a report with a sidecar."""
    ask, command = make(n)
    kind = n.rng.randrange(4)
    out, key = n.ident(), n.ident()
    if kind == 0:
        return f"{ask} Write it to {out}.txt.", f"{command} > {out}.txt"
    if kind in (1, 2):
        words = n.rng.choice(
            [
                f'Write {{"{key}": N}} to {out}.json.',
                f"Save it as {key} in {out}.json.",
                f"Store it in {out}.json under the key {key}.",
            ]
        )
        return f"{ask} {words}", f'echo "{{\\"{key}\\": $({command})}}" > {out}.json'
    words = f"Write the line {key}: N to {out}.md and {key} as JSON to {out}.json."
    return f"{ask} {words}", f'n=$({command}); echo "{key}: $n" > {out}.md; echo "{{\\"{key}\\": $n}}" > {out}.json'


def listing(n: Names) -> tuple[str, str]:
    """A request whose answer is rows or values of one file, or of two."""
    t = Table(n)
    (c,) = t.pick()
    m, i, f, out = t.named(c), t.index(c), t.file, n.ident() + n.rng.choice([".csv", ".txt"])
    kind = n.rng.randrange(9)
    words, test = condition(n, t)
    if kind in (0, 1):
        ask = n.rng.choice(
            [
                f"Write the {m} of rows {words} to {out}, one a line",
                f"List {m} for rows {words} in {out}",
                f"Put the {m} of every row {words} into {out}",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1&&{test}{{print ${i}}}' {f} > {out}"
    if kind in (2, 3):
        ask = n.rng.choice(
            [
                f"Keep the header and the rows {words}; write them to {out}",
                f"Copy rows {words}, with the header, to {out}",
                f"Filter rows {words} into {out}, header first",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR==1||{test}' {f} > {out}"
    if kind == 4:
        ask = n.rng.choice(
            [
                f"Write each {m} once, sorted, to {out}",
                f"List the distinct {m} in order in {out}",
                f"Put the sorted unique {m} into {out}",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1' {f} | cut -d, -f{i} | sort -u > {out}"
    if kind == 5:
        (d,) = t.pick()
        ask = n.rng.choice(
            [
                f"Sum {t.named(d)} for each {m} into {out}, sorted",
                f"Write the total {t.named(d)} per {m} to {out}, sorted",
                f"Total {t.named(d)} by {m}, sorted, in {out}",
            ]
        )
        return (
            f"{t.says()} {ask}.",
            f"awk -F, 'NR>1{{s[${i}]+=${t.index(d)}}} END{{for(k in s) print k\",\"s[k]}}' {f} | sort > {out}",
        )
    if kind == 6:
        ask = n.rng.choice(
            [
                f"Sort the rows by {m} without the header into {out}",
                f"Order its data rows by {m} and write them to {out}",
            ]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1' {f} | sort -t, -k{i},{i} > {out}"
    if kind == 7:
        ask = n.rng.choice(
            [f"Write one file for each {m}, named after it, with its rows", f"Split the rows by {m} into a file each"]
        )
        return f"{t.says()} {ask}.", f"awk -F, 'NR>1{{print > (${i}\".csv\")}}' {f}"
    key = n.word()
    a, b = Table(n, key), Table(n, key)
    ask = n.rng.choice(
        [
            f"Write the {a.named(key)} of {a.file} that are missing from {b.file} (${b.index(key)}) to {out}.",
            f"List in {out} every {a.named(key)} in {a.file} but not in {b.file} (${b.index(key)}).",
        ]
    )
    return (
        f"{a.says()} {b.says()} {ask}",
        f"awk -F, 'NR==FNR{{m[${b.index(key)}]=1;next}} FNR>1&&!(${a.index(key)} in m){{print ${a.index(key)}}}' {b.file} {a.file} > {out}",
    )


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


def columns(n: Names) -> tuple[str, str]:
    """A short request that asks for little but the place of a column."""
    t = Table(n)
    f, kind = t.file, n.rng.randrange(4)
    a, b = (t.pick(2) * 2)[:2]
    words, test = condition(n, t)
    if kind == 0:
        return f"{t.says()} {n.rng.choice(['Print', 'Show', 'Give'])} {t.named(a)}.", f"cut -d, -f{t.index(a)} {f}"
    if kind == 1:
        return (
            f"{t.says()} {n.rng.choice(['Print', 'Show'])} {t.named(a)} and {t.named(b)}.",
            f"awk -F, '{{print ${t.index(a)},${t.index(b)}}}' {f}",
        )
    if kind == 2:
        return (
            f"{t.says()} {n.rng.choice(['Print', 'Show', 'List'])} {t.named(a)} of rows {words}.",
            f"awk -F, 'NR>1&&{test}{{print ${t.index(a)}}}' {f}",
        )
    return f"{t.says()} {n.rng.choice(['Print', 'Show', 'Keep'])} rows {words}.", f"awk -F, '{test}' {f}"


def example(n: Names) -> tuple[str, str]:
    """One request and its command."""
    if n.rng.random() < n.short:
        return columns(n)
    roll = n.rng.random()
    if roll < 0.45:
        return stored(n, scalar)
    if roll < 0.60:
        return stored(n, joined)
    if roll < 0.85:
        return listing(n)
    return plain(n)


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


def document(request: str, command: str) -> tuple[str, str]:
    """The prompt and the reply as ChatML."""
    return f"<|im_start|>user\n{request}<|im_end|>\n<|im_start|>assistant\n", f"```bash\n{command}\n```<|im_end|>"


def train_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE over the corpus, digits apart."""
    n = Names(random.Random(1))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(("".join(example(n)) for _ in range(20_000)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = CHATML
    return fast


def batches(tokenizer: PreTrainedTokenizerFast, n: Names, size: int):  # noqa: ANN201
    """Endless batches of (ids_BT, weight_BT), length-sorted in pools of sixteen batches.

    The weight is that of predicting the next token: 1 in a reply, 4 where that is the number of a column, 0 elsewhere.
    """
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    digits = {i for i, piece in enumerate(pieces) if piece in "12345"}
    leads = {i for i, piece in enumerate(pieces) if piece.endswith(("$", "-f", "-k"))} | {
        pieces.index("f"),
        pieces.index("k"),
    }
    while True:
        rows = []
        pairs = [document(*example(n)) for _ in range(size * 16)]
        for p, r in zip(
            tokenizer([p for p, _ in pairs])["input_ids"], tokenizer([r for _, r in pairs])["input_ids"], strict=True
        ):
            rows.append((p, r))
        rows.sort(key=lambda x: len(x[0]) + len(x[1]))
        groups = [rows[i : i + size] for i in range(0, len(rows), size)]
        n.rng.shuffle(groups)
        for group in groups:
            width = max(len(p) + len(r) for p, r in group)
            ids = torch.full((len(group), width), tokenizer.pad_token_id)
            weight = torch.zeros((len(group), width))
            for b, (p, r) in enumerate(group):
                ids[b, : len(p) + len(r)] = torch.tensor(p + r)
                for i, token in enumerate(r):
                    weight[b, len(p) - 1 + i] = 4.0 if token in digits and i and r[i - 1] in leads else 1.0
            yield ids, weight


@torch.no_grad()
def exact(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, count: int = 128) -> float:
    """The share of held-out requests whose whole reply is the arg-max at every position."""
    right: list[bool] = []
    for ids, weight in batches(tokenizer, Names(random.Random(2), short=0.0), 32):
        hits = (model(ids).logits[:, :-1].argmax(-1) == ids[:, 1:]) | (weight[:, :-1] == 0)
        right += hits.all(1).tolist()
        if len(right) >= count:
            return sum(right) / len(right)
    raise AssertionError("batches never end")


def keep(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, record: dict[str, object]) -> None:
    """Write weights (bf16), tokenizer and a record of how they were made."""
    out.mkdir(parents=True, exist_ok=True)
    record |= {"exact": round(exact(model, tokenizer, 256), 4), "torch": torch.__version__}
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "made.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record), flush=True)


def main() -> None:
    """Train for a given number of minutes and write the model, its tokenizer and a record of how it was made."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--minutes", type=float, default=40.0)
    cli.add_argument("--out", type=Path, required=True)
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--width", type=int, default=128)
    cli.add_argument("--layers", type=int, default=4)
    cli.add_argument("--vocabulary", type=int, default=2048)
    cli.add_argument("--seed", type=int, default=0)
    cli.add_argument("--start", type=Path, default=None, help="go on from this model and its tokenizer")
    args = cli.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.start) if args.start else train_tokenizer(args.vocabulary)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=args.width,
        intermediate_size=args.width * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 32,
        num_key_value_heads=args.width // 32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    if args.start:
        model = LlamaForCausalLM.from_pretrained(args.start, dtype=torch.float32)
    hidden = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon, adam = Muon(hidden), torch.optim.AdamW(rest, weight_decay=0.0, betas=(0.9, 0.95))
    size = sum(p.numel() for p in model.parameters())
    print(f"{size:,} parameters, {len(tokenizer)} tokens")
    started, step, tokens, shown = time.monotonic(), 0, 0, 0.0
    for ids, weight in batches(tokenizer, Names(random.Random(args.seed + 10)), args.batch):
        done = (time.monotonic() - started) / (args.minutes * 60)
        if done >= 1:
            break
        scale = min(1.0, (step + 1) / 50) * (1.0 if done < 0.4 else (1 - done) / 0.6)
        muon.lr = 0.02 * scale
        adam.param_groups[0]["lr"] = 5e-3 * scale
        predicts = weight[:, :-1] > 0
        states = model.model(ids).last_hidden_state[:, :-1][predicts]
        losses = torch.nn.functional.cross_entropy(model.lm_head(states), ids[:, 1:][predicts], reduction="none")
        loss = (losses * weight[:, :-1][predicts]).sum() / weight.sum()
        loss.backward()
        muon.step()
        adam.step()
        adam.zero_grad()
        step, tokens = step + 1, tokens + ids.numel()
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            keep(model, tokenizer, args.out, {"parameters": size, "steps": step, "partial": True})
            print(f"step {step} {shown - started:.0f}s tokens {tokens:,} loss {loss.item():.4f}", flush=True)
    keep(
        model,
        tokenizer,
        args.out,
        {
            "parameters": size,
            "steps": step,
            "examples": step * args.batch,
            "tokens": tokens,
            "minutes": args.minutes,
            "seed": args.seed,
        },
    )


if __name__ == "__main__":
    main()
