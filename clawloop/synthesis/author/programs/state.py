"""End states of the workspace: files that are moved, renamed, rewritten or gone, while all others stay.

On the terminal track a card's form is the stuff that the files are made of: .json, .csv, .log (files) or .md (report).
"""

import hashlib
import json

from clawloop.synthesis.author.programs.scene import Degenerate, Scene
from clawloop.synthesis.author.programs.table import Table, show


def ticket(scene: Scene, suffix: str = "", words: list[str] | None = None, size: int = 0) -> str:
    """A small file on some entities, each with a site and one of the statuses `words`; returns its path."""
    suffix = suffix or scene.suffix
    site, status, entity = scene.domain["site"], scene.domain["status"], scene.domain["entity"]
    stem = scene.rng.choice([*site[1], scene.domain["log"], *scene.ids(3)])
    if scene.rng.random() < 0.5:
        stem += f"_{scene.rng.randint(1, 99)}"
    path = stem + suffix
    if path in scene.files:
        raise Degenerate("two files of one name")
    lines = [
        [name, scene.rng.choice(site[1]), scene.rng.choice(words or status[1])]
        for name in scene.ids(size or scene.rng.randint(3, 6))
    ]
    if suffix == ".csv":
        text = "\n".join(map(",".join, [[entity, site[0], status[0]], *lines]))
    elif suffix == ".json":
        columns = (entity, site[0], status[0])
        text = "[\n" + ",\n".join(json.dumps(dict(zip(columns, line, strict=True))) for line in lines) + "\n]"
    else:
        text = "\n".join(("- " if suffix == ".md" else "") + " ".join(line) for line in lines)
    scene.files[path] = text + "\n"
    return path


def end_state(
    scene: Scene,
    command: str,
    same_as: dict[str, str] | None = None,
    gone: list[str] | None = None,
    lines: dict[str, list[str]] | None = None,
    pattern: str = "",
    order: str = "",
) -> None:
    """Ask for an end state.

    Args:
        scene: the task.
        command: the oracle.
        same_as: paths that must hold what an input held.
        gone: paths that must not be there.
        lines: paths that must hold these lines.
        pattern: what the contract says in place of naming the paths in `gone`.
        order: declares the order of lines; any order is right where it is empty.
    """
    scene.oracle = [command]
    for path, source in (same_as or {}).items():
        scene.answer[path] = digest(scene.files[source])
        scene.deliver(path, "state", {"file": "same bytes"})
        scene.check(path, path, "bytes")
    for path, wanted in (lines or {}).items():
        if "".join(f"{line}\n" for line in wanted) == scene.files.get(path):
            raise Degenerate("nothing to change")
        scene.answer[path] = wanted
        scene.deliver(path, "state", {"file": "lines"})
        scene.check(path, path, "lines", ordered=bool(order))
    if order:
        scene.rule("order", order)
    if pattern:
        scene.deliver(f"*{scene.suffix}", "state", {"files": pattern})
    for path in gone or []:
        scene.answer[path] = None
        scene.check(path, path, "absent", paths=[path])
        if not pattern:
            scene.deliver(path, "state", {"path": "absent"})
    settled = [*(same_as or {}), *(gone or []), *(lines or {})]
    scene.unchanged("other files", [path for path in scene.files if path not in settled])


def move(scene: Scene, command: str, picked: list[str], folder: str, copy: bool = False) -> None:
    """Ask that these files, and no others, lie in a folder; where moved, not in their old places."""
    if not 2 <= len(picked) < len(scene.files):
        raise Degenerate("too few or all files")
    scene.oracle = [command]
    names = sorted(path.rpartition("/")[2] for path in picked)
    scene.answer[folder] = names
    scene.deliver(folder, "state", {"folder": "files"})
    scene.check(folder, folder, "names")
    inside = {f"{folder}/{path.rpartition('/')[2]}": digest(scene.files[path]) for path in sorted(picked)}
    scene.check(f"{folder} contents", folder, "same", files=inside)
    if not copy:
        scene.check("old places", "", "absent", paths=sorted(picked))
    scene.unchanged("other files", [path for path in scene.files if copy or path not in picked])


def discard(scene: Scene, spare: str) -> None:
    """Ask that files of one suffix be deleted."""
    for _ in range(scene.rng.randint(2, 4)):
        ticket(scene)
    gone = [ticket(scene, spare) for _ in range(scene.rng.randint(2, 4))]
    scene.say("delete_all", ext=spare[1:])
    scene.oracle = [f"rm *{spare}"]
    scene.answer |= dict.fromkeys(sorted(gone))
    scene.deliver(f"*{spare}", "state", {"files": "absent"})
    for path in sorted(gone):
        scene.check(path, path, "absent", paths=[path])
    scene.unchanged("other files", [path for path in scene.files if path not in gone])


def marked(scene: Scene, kind: str, **names: str) -> tuple[list[str], str]:
    """A register of files with a mark; the paths that one mark picks, and the shell expression that gives them."""
    paths = [ticket(scene) for _ in range(9)]
    draw, name = scene.word("status"), scene.name("status")
    rows = [{"file": path, name: draw(), "page": str(scene.rng.randint(1, 9))} for path in paths]
    scene.rng.shuffle(rows)
    table = scene.table(Table(scene.source("reference", ".txt"), scene.rng.sample(["file", name, "page"], 3), rows))
    value = scene.rng.choice(sorted(set(table.values(name))))
    picked = [row["file"] for row in rows if row[name] == value]
    if not 2 <= len(picked) <= 5:
        raise Degenerate("too few or too many are marked")
    scene.intro(table)
    scene.say(kind, file=table.named("file"), c=table.named(name), v=value, **names)
    command = show(table.field("file"), table.path, f'{table.field(name)}=="{value}"')
    return picked, f"$({command})"


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
