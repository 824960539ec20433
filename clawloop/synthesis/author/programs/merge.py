"""Multi-document merge: one result out of several documents, each thing once."""

from collections.abc import Callable

from clawloop.synthesis.author.programs.forms import Kinds, Number, Rows, choose
from clawloop.synthesis.author.programs.scene import NUMBER_ROLES, TEXT_ROLES, Scene
from clawloop.synthesis.author.programs.state import end_state, marked, move, ticket
from clawloop.synthesis.author.programs.table import Table, column, lookup, show


def lists(scene: Scene) -> tuple[str, str, list[str], list[str]]:
    """Two lists of entities, a name a line, that share some."""
    names = scene.ids(scene.rng.randint(30, 50))
    one = [name for name in names if scene.rng.random() < 0.6]
    two = [name for name in names if scene.rng.random() < 0.6]
    scene.rng.shuffle(one)
    scene.rng.shuffle(two)
    first, second = scene.source("records", ".txt"), scene.source("log", ".txt")
    for path, lines in ((first, one), (second, two)):
        scene.files[path] = "".join(f"{line}\n" for line in lines)
    return first, second, one, two


def _distinct_count(scene: Scene) -> Number:
    role = scene.rng.choice(NUMBER_ROLES)
    table = scene.records(role)
    name = scene.name(role)
    scene.intro(table)
    scene.say("count_distinct", what=table.named(name))
    return f"{column(table.field(name), table.path)} | sort -u | wc -l", len(set(table.values(name)))


def _union_count(scene: Scene) -> Number:
    first, second, one, two = lists(scene)
    scene.say("count_union", a=first, b=second)
    return f"sort -u {first} {second} | wc -l", len({*one, *two})


def _shared_count(scene: Scene) -> Number:
    first, second, one, two = lists(scene)
    scene.say("count_shared", a=first, b=second)
    return f"sort {first} {second} | uniq -d | wc -l", len({*one} & {*two})


def _distinct_values(scene: Scene) -> Rows:
    role = scene.rng.choice(TEXT_ROLES)
    table = scene.records(role)
    name = scene.name(role)
    scene.intro(table)
    scene.say("list_distinct", what=table.named(name))
    lines = sorted(set(table.values(name)))
    return Rows(f"{column(table.field(name), table.path)} | sort -u", lines, [name], order="sorted")


def _union_list(scene: Scene) -> Rows:
    first, second, one, two = lists(scene)
    scene.say("list_union", a=first, b=second)
    return Rows(f"sort -u {first} {second}", sorted({*one, *two}), [scene.domain["entity"]], order="sorted")


def _distinct_where(scene: Scene) -> Number:
    role, other = scene.rng.choice(NUMBER_ROLES), scene.rng.choice(TEXT_ROLES)
    table = scene.records(role, other, size=44)
    name = scene.name(role)
    scene.intro(table)
    where, test, holds = scene.condition(table, other)
    scene.say("count_distinct_where", what=table.named(name), where=where)
    command = f"{show(table.field(name), table.path, test)} | sort -u | wc -l"
    return command, len({row[name] for row in table.rows if holds(row)})


def halves(scene: Scene, *roles: str) -> tuple[Table, Table]:
    """Two files with the same columns, which share some rows."""
    first = scene.records(*roles, size=scene.rng.randint(36, 54))
    rows, size = first.rows, len(first.rows)
    second = Table(scene.source("log", ".csv"), first.columns, rows[size // 2 :])
    first.rows = rows[: size // 2 + scene.rng.randint(3, 8)]
    for table in (first, second):
        scene.rng.shuffle(table.rows)
        scene.table(table)
    scene.say("intro_both", a=first.path, b=second.path, columns=",".join(first.columns))
    return first, second


def _total_of_both(scene: Scene) -> Number:
    role = scene.rng.choice(NUMBER_ROLES)
    first, second = halves(scene, role)
    name = scene.name(role)
    scene.say("add_both", what=first.named(name))
    scene.rule("repeats", "count twice")
    command = f"awk -F, 'FNR>1{{s+={first.field(name)}}} END{{print s+0}}' {first.path} {second.path}"
    return command, first.total(name) + second.total(name)


def _count_of_both(scene: Scene) -> Number:
    role = scene.rng.choice(TEXT_ROLES)
    first, second = halves(scene, role)
    where, test, holds = scene.condition(first, role)
    scene.say("count_both", where=where)
    scene.rule("repeats", "count twice")
    command = f"awk -F, 'FNR>1&&{test}{{n++}} END{{print n+0}}' {first.path} {second.path}"
    return command, sum(map(holds, first.rows + second.rows))


def _union_ids(scene: Scene) -> Rows:
    first, second = halves(scene)
    entity = first.columns[0]
    scene.say("list_both", what=first.named(entity))
    command = f"awk -F, 'FNR>1{{print $1}}' {first.path} {second.path} | sort -u"
    return Rows(command, sorted({*first.values(entity), *second.values(entity)}), [entity], order="sorted")


def _distinct_values_where(scene: Scene) -> Rows:
    role = scene.rng.choice(("category", "status", *NUMBER_ROLES))
    table = scene.records("site", role)
    scene.intro(table)
    where, test, holds = scene.condition(table, role)
    name = scene.name("site")
    scene.say("list_distinct_where", what=table.named(name), where=where)
    lines = sorted({row[name] for row in table.rows if holds(row)})
    return Rows(f"{show(table.field(name), table.path, test)} | sort -u", lines, [name], order="sorted")


def sheets(scene: Scene) -> tuple[Table, Table, str, str, dict[str, str]]:
    """Two files with other columns on entities that overlap."""
    one, two = scene.rng.sample(NUMBER_ROLES, 2)
    first = scene.records(one, columns=3)
    entity, a, b = first.columns[0], scene.name(one), scene.name(two)
    draw = scene.draws(two)
    rows = [{entity: name, b: draw()} for name in first.values(entity) if scene.rng.random() < 0.7]
    rows += [{entity: name, b: draw()} for name in scene.ids(8) if name not in first.values(entity)]
    scene.rng.shuffle(rows)
    second = scene.table(Table(scene.source("log", ".csv"), [entity, b], rows))
    scene.intro(first, second)
    scene.rule("join", f"by {entity}")
    return first, second, a, b, {row[entity]: row[b] for row in rows}


def _common_count(scene: Scene) -> Number:
    first, second, _, _, known = sheets(scene)
    entity = first.columns[0]
    scene.say("count_common", key=first.named(entity), a=first.path, b=second.path)
    command = lookup("$1", "1", second.path, "&&($1 in m){n++} END{print n+0}", first.path)
    return command, sum(name in known for name in first.values(entity))


def _common_total(scene: Scene) -> Number:
    first, second, a, b, known = sheets(scene)
    entity = first.columns[0]
    scene.say("add_common", key=first.named(entity), a=first.named(a), b=second.named(b))
    then = f"&&($1 in m){{s+={first.field(a)}+m[$1]}} END{{print s+0}}"
    value = sum(int(row[a]) + int(known[row[entity]]) for row in first.rows if row[entity] in known)
    return lookup("$1", "$2", second.path, then, first.path), value


def _merged_rows(scene: Scene) -> Rows:
    first, second, a, b, known = sheets(scene)
    entity, x = first.columns[0], first.field(a)
    scene.say("list_common", key=first.named(entity), a=first.named(a), b=second.named(b))
    lines = [f"{row[entity]},{row[a]},{known[row[entity]]}" for row in first.rows if row[entity] in known]
    then = f'&&($1 in m){{print $1","{x}","m[$1]}}'
    return Rows(lookup("$1", "$2", second.path, then, first.path), lines, [entity, a, b])


def _append(scene: Scene) -> None:
    first, second, one, two = lists(scene)
    new = scene.output(".txt")
    scene.say("append", a=first, b=second, c=new)
    end_state(scene, f"cat {first} {second} > {new}", lines={new: one + two}, order="first file first")


def _union(scene: Scene) -> None:
    first, second, one, two = lists(scene)
    new = scene.output(".txt")
    scene.say("union", a=first, b=second, c=new)
    end_state(scene, f"sort -u {first} {second} > {new}", lines={new: sorted({*one, *two})}, order="sorted")


def _gather(scene: Scene) -> None:
    folder = scene.fresh(scene.domain["folders"])
    paths = [ticket(scene) for _ in range(scene.rng.randint(2, 4))]
    for _ in range(scene.rng.randint(2, 3)):
        ticket(scene, ".txt")
    scene.say("copy_all", ext=scene.suffix[1:], folder=folder)
    move(scene, f"mkdir -p {folder} && cp *{scene.suffix} {folder}/", paths, folder, copy=True)


def _append_away(scene: Scene) -> None:
    first, second, one, two = lists(scene)
    new = scene.output(".txt")
    scene.say("append_away", a=first, b=second, c=new)
    command = f"cat {first} {second} > {new} && rm {first} {second}"
    end_state(scene, command, lines={new: one + two}, gone=[first, second], order="first file first")


def _union_away(scene: Scene) -> None:
    first, second, one, two = lists(scene)
    new = scene.output(".txt")
    scene.say("union_away", a=first, b=second, c=new)
    command = f"sort -u {first} {second} > {new} && rm {first} {second}"
    end_state(scene, command, lines={new: sorted({*one, *two})}, gone=[first, second], order="sorted")


def _gather_two(scene: Scene) -> None:
    folder = scene.fresh(scene.domain["folders"])
    paths = [ticket(scene, suffix) for suffix in (scene.suffix, ".txt") for _ in range(scene.rng.randint(2, 3))]
    for _ in range(2):
        ticket(scene, ".bak")
    scene.say("move_two", one=scene.suffix[1:], two="txt", folder=folder)
    move(scene, f"mkdir -p {folder} && mv *{scene.suffix} *.txt {folder}/", paths, folder)


def _append_marked(scene: Scene) -> None:
    new = scene.output(".out")
    picked, which = marked(scene, "append_marked", new=new)
    lines = [line for path in picked for line in scene.files[path].splitlines()]
    end_state(scene, f"cat {which} > {new}", lines={new: lines}, order="as listed")


def _merge_away(scene: Scene) -> None:
    first, second, a, b, known = sheets(scene)
    entity, x, new = first.columns[0], first.field(a), scene.output(".csv")
    scene.say("merge_away", key=first.named(entity), a=first.named(a), b=second.named(b), file=new)
    lines = [f"{row[entity]},{row[a]},{known[row[entity]]}" for row in first.rows if row[entity] in known]
    command = lookup("$1", "$2", second.path, f'&&($1 in m){{print $1","{x}","m[$1]}}', first.path)
    gone = [first.path, second.path]
    end_state(scene, f"{command} > {new} && rm {first.path} {second.path}", lines={new: lines}, gone=gone)


NUMBERS: Kinds = {
    0: [_distinct_count, _union_count, _shared_count],
    1: [_distinct_where, _total_of_both, _count_of_both],
    2: [_common_count, _common_total],
}
ROWS: Kinds = {0: [_distinct_values, _union_list], 1: [_union_ids, _distinct_values_where], 2: [_merged_rows]}
STATES: Kinds = {0: [_append, _union, _gather], 1: [_append_away, _union_away, _gather_two], 2: [_append_marked, _merge_away]}


def kinds(track: str, level: int, form: str) -> list[Callable[[Scene], None]]:
    """What a card may ask for at levels 0 to 2."""
    return choose(NUMBERS, ROWS, STATES, track, level, form)
