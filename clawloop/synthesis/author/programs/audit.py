"""Cross-source audit: records that break a rule, by themselves or against another source."""

from collections.abc import Callable

from clawloop.synthesis.author.programs.forms import Kinds, Number, Rows, choose
from clawloop.synthesis.author.programs.scene import NUMBER_ROLES, TEXT_ROLES, Degenerate, Scene
from clawloop.synthesis.author.programs.state import end_state, marked, move, ticket
from clawloop.synthesis.author.programs.table import Table, count, keep, lookup, show


def log(scene: Scene) -> tuple[str, list[str]]:
    """A log with a line an event: an entity, a site, a status."""
    status, site = scene.word("status"), scene.word("site")
    lines = [f"{name} {site()} {status()}" for name in scene.ids(scene.rng.randint(20, 40))]
    path = scene.source("log", ".txt")
    scene.files[path] = "".join(f"{line}\n" for line in lines)
    return path, lines


def mentioned(scene: Scene, lines: list[str], role: str) -> str:
    """A word that some lines have and others have not."""
    found = [word for word in scene.domain[role][1] if 0 < sum(word in line for line in lines) < len(lines)]
    if not found:
        raise Degenerate("all lines agree")
    return str(scene.rng.choice(found))


def _text_count(scene: Scene) -> Number:
    path, lines = log(scene)
    word = mentioned(scene, lines, scene.rng.choice(["status", "site"]))
    scene.say("count_lines", file=path, word=word)
    return f"grep -c {word} {path}", sum(word in line for line in lines)


def _word_count(scene: Scene) -> Number:
    role = scene.rng.choice(TEXT_ROLES)
    table = scene.records(role)
    scene.intro(table)
    where, test, holds = scene.condition(table, role)
    scene.say("count", where=where)
    return count(test, table.path), sum(map(holds, table.rows))


def _bound_count(scene: Scene) -> Number:
    role = scene.rng.choice(NUMBER_ROLES)
    table = scene.records(role)
    scene.intro(table)
    where, test, holds = scene.condition(table, role)
    scene.say("count", where=where)
    return count(test, table.path), sum(map(holds, table.rows))


def _flagged_ids(scene: Scene) -> Rows:
    role = scene.rng.choice(TEXT_ROLES + NUMBER_ROLES)
    table = scene.records(role)
    entity = table.columns[0]
    scene.intro(table)
    where, test, holds = scene.condition(table, role)
    scene.say("list", what=table.named(entity), where=where)
    return Rows(show("$1", table.path, test), [row[entity] for row in table.rows if holds(row)], [entity])


def _flagged_rows(scene: Scene) -> Rows:
    role = scene.rng.choice(TEXT_ROLES + NUMBER_ROLES)
    table = scene.records(role)
    scene.intro(table)
    where, test, holds = scene.condition(table, role)
    scene.say("keep", where=where)
    found = [",".join(cells) for cells in table.cells([row for row in table.rows if holds(row)])]
    return Rows(keep(test, table.path), [",".join(table.columns), *found], table.columns, header=True)


def _both_count(scene: Scene) -> Number:
    roles = scene.rng.choice(TEXT_ROLES), scene.rng.choice(NUMBER_ROLES)
    table = scene.records(*roles)
    scene.intro(table)
    one, first, holds = scene.condition(table, roles[0])
    two, second, also = scene.condition(table, roles[1])
    scene.say("count", where=f"{one} and {two}")
    return count(f"{first}&&{second}", table.path), sum(holds(row) and also(row) for row in table.rows)


def _both_text_count(scene: Scene) -> Number:
    path, lines = log(scene)
    one, two = mentioned(scene, lines, "status"), mentioned(scene, lines, "site")
    scene.say("count_lines_both", file=path, one=one, two=two)
    return f"grep {one} {path} | grep -c {two}", sum(one in line and two in line for line in lines)


def _either_count(scene: Scene) -> Number:
    role = scene.rng.choice(TEXT_ROLES)
    table = scene.records(role)
    name = scene.name(role)
    scene.intro(table)
    one, two = scene.rng.sample(scene.domain[role][1], 2)
    scene.say("count", where=f"{table.named(name)} is {one} or {two}")
    test = f'({table.field(name)}=="{one}"||{table.field(name)}=="{two}")'
    return count(test, table.path), sum(row[name] in (one, two) for row in table.rows)


def _both_ids(scene: Scene) -> Rows:
    roles = scene.rng.choice(TEXT_ROLES), scene.rng.choice(NUMBER_ROLES)
    table = scene.records(*roles, size=40)
    entity = table.columns[0]
    scene.intro(table)
    one, first, holds = scene.condition(table, roles[0])
    two, second, also = scene.condition(table, roles[1])
    scene.say("list", what=table.named(entity), where=f"{one} and {two}")
    lines = [row[entity] for row in table.rows if holds(row) and also(row)]
    return Rows(show("$1", table.path, f"{first}&&{second}"), lines, [entity])


def limits(scene: Scene) -> tuple[Table, Table, str, str, dict[str, int]]:
    """Records with a number, and a reference with one limit a category."""
    role = scene.rng.choice(NUMBER_ROLES)
    table = scene.records("category", role)
    category, name = scene.name("category"), scene.name(role)
    numbers = sorted(map(int, table.values(name)))
    bound = {word: numbers[int(len(numbers) * scene.rng.uniform(0.3, 0.8))] for word in scene.domain["category"][1]}
    rows = [{category: word, "limit": str(limit)} for word, limit in bound.items()]
    other = scene.table(Table(scene.source("reference", ".csv"), [category, "limit"], rows))
    scene.intro(table, other)
    scene.rule("join", f"by {category}")
    return table, other, category, name, bound


def _limit_count(scene: Scene) -> Number:
    table, other, category, name, bound = limits(scene)
    scene.say("count_limit", what=table.named(name), by=table.named(category), limit=other.named("limit"))
    then = f"&&{table.field(name)}>m[{table.field(category)}]{{n++}} END{{print n+0}}"
    value = sum(int(row[name]) > bound[row[category]] for row in table.rows)
    return lookup("$1", "$2", other.path, then, table.path), value


def register(scene: Scene) -> tuple[Table, Table, str, dict[str, str]]:
    """Records with a site, and a reference that gives most sites a grade."""
    table = scene.records("site")
    site = scene.name("site")
    grades = scene.rng.sample(["gold", "plain", "basic", "prime", "rough"], 2)
    known = {word: scene.rng.choice(grades) for word in scene.rng.sample(scene.domain["site"][1], 3)}
    rows = [{site: word, "grade": grade} for word, grade in known.items()]
    other = scene.table(Table(scene.source("reference", ".csv"), [site, "grade"], rows))
    scene.intro(table, other)
    scene.rule("join", f"by {site}")
    return table, other, site, known


def _unknown_count(scene: Scene) -> Number:
    table, other, site, known = register(scene)
    scene.say("count_missing", key=table.named(site), a=table.path, b=other.path)
    command = lookup("$1", "1", other.path, f"&&!({table.field(site)} in m){{n++}} END{{print n+0}}", table.path)
    return command, sum(row[site] not in known for row in table.rows)


def _grade_count(scene: Scene) -> Number:
    table, other, site, known = register(scene)
    grade = scene.rng.choice(sorted(set(known.values())))
    scene.say("count_grade", key=table.named(site), grade=other.named("grade"), v=grade)
    then = f'&&m[{table.field(site)}]=="{grade}"{{n++}} END{{print n+0}}'
    return lookup("$1", "$2", other.path, then, table.path), sum(known.get(row[site]) == grade for row in table.rows)


def _limit_ids(scene: Scene) -> Rows:
    table, other, category, name, bound = limits(scene)
    entity = table.columns[0]
    names = {"what": table.named(name), "by": table.named(category), "limit": other.named("limit")}
    scene.say("list_limit", key=table.named(entity), **names)
    lines = [row[entity] for row in table.rows if int(row[name]) > bound[row[category]]]
    then = f"&&{table.field(name)}>m[{table.field(category)}]{{print $1}}"
    return Rows(lookup("$1", "$2", other.path, then, table.path), lines, [entity])


def _unknown_ids(scene: Scene) -> Rows:
    table, other, site, known = register(scene)
    entity = table.columns[0]
    scene.say("list_unknown", what=table.named(entity), key=table.named(site), b=other.path)
    lines = [row[entity] for row in table.rows if row[site] not in known]
    return Rows(lookup("$1", "1", other.path, f"&&!({table.field(site)} in m){{print $1}}", table.path), lines, [entity])


def _quarantine(scene: Scene) -> None:
    folder = scene.fresh(scene.domain["folders"])
    paths = [ticket(scene) for _ in range(scene.rng.randint(2, 4))]
    for _ in range(scene.rng.randint(2, 3)):
        ticket(scene, ".txt")
    scene.say("move_all", ext=scene.suffix[1:], folder=folder)
    move(scene, f"mkdir -p {folder} && mv *{scene.suffix} {folder}/", paths, folder)


def _flag_lines(scene: Scene) -> None:
    path, lines = log(scene)
    word, new = mentioned(scene, lines, scene.rng.choice(["status", "site"])), scene.output(".txt")
    scene.say("copy_lines", a=path, word=word, b=new)
    end_state(scene, f"grep {word} {path} > {new}", lines={new: [line for line in lines if word in line]})


def _clean_lines(scene: Scene) -> None:
    path, lines = log(scene)
    word, new = mentioned(scene, lines, scene.rng.choice(["status", "site"])), scene.output(".txt")
    scene.say("drop_lines", a=path, word=word, b=new)
    end_state(scene, f"grep -v {word} {path} > {new}", lines={new: [line for line in lines if word not in line]})


def mentions(scene: Scene) -> tuple[str, list[str]]:
    """Files of which some mention a word; the word and their paths."""
    word = str(scene.rng.choice(scene.domain["status"][1]))
    rest = [other for other in scene.domain["status"][1] if other != word]
    paths = [ticket(scene, words=rest if scene.rng.random() < 0.5 else None) for _ in range(scene.rng.randint(5, 8))]
    picked = [path for path in paths if word in scene.files[path]]
    if not 2 <= len(picked) < len(paths):
        raise Degenerate("too few or all mention it")
    return word, picked


def _move_mentions(scene: Scene) -> None:
    word, picked = mentions(scene)
    folder, ext = scene.fresh(scene.domain["folders"]), scene.suffix
    scene.say("move_mentions", ext=ext[1:], word=word, folder=folder)
    move(scene, f"mkdir -p {folder} && mv $(grep -l {word} *{ext}) {folder}/", picked, folder)


def _remove_mentions(scene: Scene) -> None:
    word, picked = mentions(scene)
    scene.say("delete_mentions", ext=scene.suffix[1:], word=word)
    end_state(scene, f"rm $(grep -l {word} *{scene.suffix})", gone=picked, pattern=f"none with {word}")


def _copy_marked(scene: Scene) -> None:
    folder = scene.fresh(scene.domain["folders"])
    picked, which = marked(scene, "copy_marked", folder=folder)
    move(scene, f"mkdir -p {folder} && cp {which} {folder}/", picked, folder, copy=True)


def _move_over(scene: Scene) -> None:
    table, other, category, name, bound = limits(scene)
    del table.rows[12:]
    scene.table(table)
    entity, folder = table.columns[0], scene.fresh(scene.domain["folders"])
    for row in table.rows:
        scene.files[f"{row[entity]}{scene.suffix}"] = f"{row[entity]} {row[category]} card {scene.rng.randint(10, 99)}\n"
    names = {"what": table.named(name), "by": table.named(category), "limit": other.named("limit")}
    scene.say("move_limit", key=table.named(entity), ext=scene.suffix, folder=folder, **names)
    then = f'&&{table.field(name)}>m[{table.field(category)}]{{print $1"{scene.suffix}"}}'
    which = lookup("$1", "$2", other.path, then, table.path)
    over = [f"{row[entity]}{scene.suffix}" for row in table.rows if int(row[name]) > bound[row[category]]]
    move(scene, f"mkdir -p {folder} && mv $({which}) {folder}/", over, folder)


NUMBERS: Kinds = {
    0: [_text_count, _word_count, _bound_count],
    1: [_both_count, _both_text_count, _either_count],
    2: [_limit_count, _unknown_count, _grade_count],
}
ROWS: Kinds = {0: [_flagged_ids, _flagged_rows], 1: [_both_ids], 2: [_limit_ids, _unknown_ids]}
STATES: Kinds = {
    0: [_quarantine, _flag_lines, _clean_lines],
    1: [_move_mentions, _remove_mentions],
    2: [_copy_marked, _move_over],
}


def kinds(track: str, level: int, form: str) -> list[Callable[[Scene], None]]:
    """What a card may ask for at levels 0 to 2."""
    return choose(NUMBERS, ROWS, STATES, track, level, form)
