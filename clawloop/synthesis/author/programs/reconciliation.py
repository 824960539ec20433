"""Reconciliation: two accounts of the same things, and where they disagree."""

from collections.abc import Callable

from clawloop.synthesis.author.programs.forms import Kinds, Number, Rows, choose
from clawloop.synthesis.author.programs.scene import NUMBER_ROLES, Scene
from clawloop.synthesis.author.programs.state import discard, end_state, marked, move, ticket
from clawloop.synthesis.author.programs.table import Row, Table, add, count, keep, lookup, show

PAIRS = "booked counted|expected found|ordered received|planned actual|listed seen|claimed checked".split("|")


def pair(scene: Scene, *roles: str, columns: int = 2) -> tuple[Table, str, str]:
    """Records with two more columns that should agree and, in two rows of five, do not."""
    a, b = scene.rng.choice(PAIRS).split()
    table = scene.records(*roles, columns=columns)
    high = scene.rng.choice([40, 90, 300])
    for row in table.rows:
        row[a] = row[b] = str(scene.rng.randint(10, high))
        if scene.rng.random() < 0.4:
            row[b] = str(int(row[a]) + scene.rng.choice([-7, -5, -3, -2, -1, 1, 2, 4, 6]))
    for name in (a, b):
        table.columns.insert(scene.rng.randint(1, len(table.columns)), name)
    return scene.table(table), a, b


def differ(scene: Scene, table: Table, a: str, b: str) -> str:
    """The filter in words."""
    scene.intro(table)
    return scene.phrase("differ", a=table.named(a), b=table.named(b))


def _differing_count(scene: Scene) -> Number:
    table, a, b = pair(scene, columns=3)
    scene.say("count", where=differ(scene, table, a, b))
    test = f"{table.field(a)}!={table.field(b)}"
    return count(test, table.path), sum(row[a] != row[b] for row in table.rows)


def _agreeing_count(scene: Scene) -> Number:
    table, a, b = pair(scene, columns=3)
    scene.intro(table)
    scene.say("count", where=scene.phrase("agree", a=table.named(a), b=table.named(b)))
    test = f"{table.field(a)}=={table.field(b)}"
    return count(test, table.path), sum(row[a] == row[b] for row in table.rows)


def _short_count(scene: Scene) -> Number:
    table, a, b = pair(scene, columns=3)
    scene.intro(table)
    scene.say("count", where=scene.phrase("more", a=table.named(a), b=table.named(b)))
    test = f"{table.field(a)}>{table.field(b)}"
    return count(test, table.path), sum(int(row[a]) > int(row[b]) for row in table.rows)


def differing_ids(scene: Scene) -> Rows:
    table, a, b = pair(scene, columns=3)
    entity = table.columns[0]
    scene.say("list", what=table.named(entity), where=differ(scene, table, a, b))
    command = show("$1", table.path, f"{table.field(a)}!={table.field(b)}")
    return Rows(command, [row[entity] for row in table.rows if row[a] != row[b]], [entity])


def differing_rows(scene: Scene) -> Rows:
    table, a, b = pair(scene, columns=3)
    scene.say("keep", where=differ(scene, table, a, b))
    wrong = [",".join(cells) for cells in table.cells([row for row in table.rows if row[a] != row[b]])]
    command = keep(f"{table.field(a)}!={table.field(b)}", table.path)
    return Rows(command, [",".join(table.columns), *wrong], table.columns, header=True)


def _differing_where(scene: Scene) -> Number:
    role = scene.rng.choice(["category", "status", "site"])
    table, a, b = pair(scene, role)
    words = differ(scene, table, a, b)
    also, test, holds = scene.condition(table, role)
    scene.say("count", where=f"{words} and {also}")
    test = f"{table.field(a)}!={table.field(b)}&&{test}"
    return count(test, table.path), sum(row[a] != row[b] and holds(row) for row in table.rows)


def _gap_total(scene: Scene) -> Number:
    table, a, b = pair(scene, columns=3)
    scene.intro(table)
    where = scene.phrase("more", a=table.named(a), b=table.named(b))
    scene.say("add", what=f"{table.named(a)} minus {table.named(b)}", where=where)
    x, y = table.field(a), table.field(b)
    value = sum(max(int(row[a]) - int(row[b]), 0) for row in table.rows)
    return add(f"{x}-{y}", table.path, f"{x}>{y}"), value


def _differing_total(scene: Scene) -> Number:
    role = scene.rng.choice(NUMBER_ROLES)
    table, a, b = pair(scene, role)
    name = scene.name(role)
    scene.say("add", what=table.named(name), where=differ(scene, table, a, b))
    test = f"{table.field(a)}!={table.field(b)}"
    return add(table.field(name), table.path, test), table.total(name, lambda row: row[a] != row[b])


def gap_rows(scene: Scene) -> Rows:
    table, a, b = pair(scene, columns=3)
    scene.intro(table)
    entity, x, y = table.columns[0], table.field(a), table.field(b)
    where = scene.phrase("more", a=table.named(a), b=table.named(b))
    scene.say("list", what=f"{table.named(entity)} and {table.named(a)} minus {table.named(b)}", where=where)
    lines = [f"{row[entity]},{int(row[a]) - int(row[b])}" for row in table.rows if int(row[a]) > int(row[b])]
    return Rows(show(f'$1","{x}-{y}', table.path, f"{x}>{y}"), lines, [entity, "gap"])


def differing_ids_where(scene: Scene) -> Rows:
    role = scene.rng.choice(["category", "status", "site"])
    table, a, b = pair(scene, role)
    words = differ(scene, table, a, b)
    entity = table.columns[0]
    also, test, holds = scene.condition(table, role)
    scene.say("list", what=table.named(entity), where=f"{words} and {also}")
    command = show("$1", table.path, f"{table.field(a)}!={table.field(b)}&&{test}")
    lines = [row[entity] for row in table.rows if row[a] != row[b] and holds(row)]
    return Rows(command, lines, [entity])


def books(scene: Scene) -> tuple[Table, Table, str, str, dict[str, str]]:
    """Two files on the same entities, one of which lacks some and has other amounts for some."""
    a, b = scene.rng.choice(PAIRS).split()
    first = scene.records(columns=3)
    entity = first.columns[0]
    first.columns.insert(scene.rng.randint(1, 3), a)
    second: list[Row] = []
    for row in first.rows:
        row[a] = str(scene.rng.randint(10, 99))
        if scene.rng.random() < 0.75:
            off = scene.rng.choice([-6, -4, -1, 2, 3, 5]) if scene.rng.random() < 0.4 else 0
            second.append({entity: row[entity], b: str(int(row[a]) + off), "page": str(scene.rng.randint(1, 9))})
    scene.rng.shuffle(second)
    columns = [entity, b, "page"] if scene.rng.random() < 0.5 else [entity, "page", b]
    other = scene.table(Table(scene.source("log", ".csv"), columns, second))
    scene.table(first)
    scene.intro(first, other)
    scene.rule("join", f"by {entity}")
    return first, other, a, b, {row[entity]: row[b] for row in second}


def _missing_count(scene: Scene) -> Number:
    first, other, _, _, known = books(scene)
    entity = first.columns[0]
    scene.say("count_missing", key=first.named(entity), a=first.path, b=other.path)
    command = lookup("$1", "1", other.path, "&&!($1 in m){n++} END{print n+0}", first.path)
    return command, sum(row[entity] not in known for row in first.rows)


def _mismatch_count(scene: Scene) -> Number:
    first, other, a, b, known = books(scene)
    entity = first.columns[0]
    scene.say("count_mismatch", key=first.named(entity), a=first.named(a), b=other.named(b))
    test = f"&&($1 in m)&&{first.field(a)}!=m[$1]{{n++}} END{{print n+0}}"
    value = sum(row[entity] in known and known[row[entity]] != row[a] for row in first.rows)
    return lookup("$1", other.field(b), other.path, test, first.path), value


def _missing_total(scene: Scene) -> Number:
    first, other, a, _, known = books(scene)
    entity = first.columns[0]
    scene.say("add_missing", what=first.named(a), key=first.named(entity), b=other.path)
    command = lookup("$1", "1", other.path, f"&&!($1 in m){{s+={first.field(a)}}} END{{print s+0}}", first.path)
    return command, first.total(a, lambda row: row[entity] not in known)


def missing_ids(scene: Scene) -> Rows:
    first, other, _, _, known = books(scene)
    entity = first.columns[0]
    scene.say("list_missing", key=first.named(entity), a=first.path, b=other.path)
    lines = [row[entity] for row in first.rows if row[entity] not in known]
    return Rows(lookup("$1", "1", other.path, "&&!($1 in m){print $1}", first.path), lines, [entity])


def mismatch_rows(scene: Scene) -> Rows:
    first, other, a, b, known = books(scene)
    entity, x = first.columns[0], first.field(a)
    scene.say("list_mismatch", key=first.named(entity), a=first.named(a), b=other.named(b))
    wrong = [row for row in first.rows if known.get(row[entity], row[a]) != row[a]]
    lines = [f"{row[entity]},{row[a]},{known[row[entity]]}" for row in wrong]
    then = f'&&($1 in m)&&{x}!=m[$1]{{print $1","{x}","m[$1]}}'
    return Rows(lookup("$1", other.field(b), other.path, then, first.path), lines, [entity, a, b])


def restore(scene: Scene) -> None:
    good, stale = ticket(scene), ticket(scene)
    scene.say("restore", a=good, b=stale)
    end_state(scene, f"cp {good} {stale}", same_as={stale: good})


def rename(scene: Scene) -> None:
    old, new = ticket(scene), scene.output(scene.suffix)
    scene.say("rename", a=old, b=new)
    end_state(scene, f"mv {old} {new}", same_as={new: old}, gone=[old])


def purge(scene: Scene) -> None:
    discard(scene, spare=scene.rng.choice([".tmp", ".bak", ".old"]))


def drop_one(scene: Scene) -> None:
    one = [ticket(scene) for _ in range(4)][scene.rng.randrange(4)]
    scene.say("delete", a=one)
    end_state(scene, f"rm {one}", gone=[one])


def correct(scene: Scene) -> None:
    path = ticket(scene, lines=True)
    old = scene.rng.choice(sorted(word for word in scene.domain["status"][1] if word in scene.files[path]))
    new = scene.fresh(["amended", "settled", "cleared", "agreed"])
    scene.say("replace", a=path, old=old, new=new)
    lines = scene.files[path].replace(old, new).splitlines()
    end_state(scene, f"sed -i 's/{old}/{new}/g' {path}", lines={path: lines})


def replace_by(scene: Scene) -> None:
    good, stale = ticket(scene), ticket(scene)
    new = scene.output(scene.suffix)
    scene.say("supersede", a=good, b=stale, c=new)
    end_state(scene, f"mv {good} {new} && rm {stale}", same_as={new: good}, gone=[good, stale])


def remove_marked(scene: Scene) -> None:
    picked, which = marked(scene, "delete_marked")
    end_state(scene, f"rm {which}", gone=picked, pattern="unmarked files only")


def move_marked(scene: Scene) -> None:
    folder = scene.fresh(scene.domain["folders"])
    picked, which = marked(scene, "move_marked", folder=folder)
    move(scene, f"mkdir -p {folder} && mv {which} {folder}/", picked, folder)


NUMBERS: Kinds = {
    0: [_differing_count, _agreeing_count, _short_count],
    1: [_differing_where, _gap_total, _differing_total],
    2: [_missing_count, _mismatch_count, _missing_total],
}
ROWS = {0: [differing_ids, differing_rows], 1: [gap_rows, differing_ids_where], 2: [missing_ids, mismatch_rows]}
STATES = {0: [restore, rename, purge, drop_one], 1: [correct, replace_by], 2: [remove_marked, move_marked]}


def kinds(track: str, level: int, form: str) -> list[Callable[[Scene], None]]:
    """What a card may ask for at levels 0 to 2."""
    return choose(NUMBERS, ROWS, STATES, track, level, form)
