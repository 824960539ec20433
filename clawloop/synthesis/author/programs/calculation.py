"""Domain calculation: totals, means, extremes and prices over records."""

from collections.abc import Callable

from clawloop.synthesis.author.programs.forms import Kinds, Number, Rows, choose
from clawloop.synthesis.author.programs.scene import NUMBER_ROLES, TEXT_ROLES, Degenerate, Scene
from clawloop.synthesis.author.programs.state import end_state
from clawloop.synthesis.author.programs.table import Condition, Table, add, column, group, keep, lookup, mean, show


def numbers(scene: Scene, *roles: str) -> tuple[Table, str]:
    """Records with a number."""
    role = scene.rng.choice(NUMBER_ROLES)
    table = scene.records(role, *roles)
    scene.intro(table)
    return table, scene.name(role)


def _total(scene: Scene) -> Number:
    table, name = numbers(scene)
    scene.say("add_all", what=table.named(name))
    return add(table.field(name), table.path), table.total(name)


def _largest(scene: Scene) -> Number:
    table, name = numbers(scene)
    scene.say("largest", what=table.named(name))
    command = f"{column(table.field(name), table.path)} | sort -nr | head -n 1"
    return command, max(map(int, table.values(name)))


def _smallest(scene: Scene) -> Number:
    table, name = numbers(scene)
    scene.say("smallest", what=table.named(name))
    return f"{column(table.field(name), table.path)} | sort -n | head -n 1", min(map(int, table.values(name)))


def _ordered_values(scene: Scene) -> Rows:
    table, name = numbers(scene)
    scene.say("list_sorted", what=table.named(name))
    lines = sorted(table.values(name), key=int)
    return Rows(f"{column(table.field(name), table.path)} | sort -n", lines, [name], order="numeric, repeats kept")


def _two_columns(scene: Scene) -> Rows:
    table, name = numbers(scene)
    entity = table.columns[0]
    scene.say("list_two", a=table.named(entity), b=table.named(name))
    lines = [f"{row[entity]},{row[name]}" for row in table.rows]
    return Rows(show(f'$1","{table.field(name)}', table.path), lines, [entity, name])


def filtered(scene: Scene) -> tuple[Table, str, Condition]:
    """Records with a number, and a filter on a column of words."""
    role = scene.rng.choice(TEXT_ROLES)
    table, name = numbers(scene, role)
    return table, name, scene.condition(table, role)


def _total_where(scene: Scene) -> Number:
    table, name, (where, test, holds) = filtered(scene)
    scene.say("add", what=table.named(name), where=where)
    return add(table.field(name), table.path, test), table.total(name, holds)


def _average(scene: Scene) -> Number:
    table, name = numbers(scene)
    scene.say("mean", what=table.named(name))
    scene.rule("rounding", "2 decimals")
    return mean(table.field(name), table.path), _mean([int(value) for value in table.values(name)])


def _average_where(scene: Scene) -> Number:
    table, name, (where, test, holds) = filtered(scene)
    scene.say("mean_where", what=table.named(name), where=where)
    scene.rule("rounding", "2 decimals")
    return mean(table.field(name), table.path, test), _mean([int(row[name]) for row in table.rows if holds(row)])


def _mean(values: list[int]) -> float:
    if not values:
        raise Degenerate("nothing to average")
    return float(f"{sum(values) / len(values):.2f}")


def _product_total(scene: Scene) -> Number:
    roles = scene.rng.sample(NUMBER_ROLES, 2)
    table = scene.records(*roles)
    a, b = map(scene.name, roles)
    scene.intro(table)
    scene.say("add_all", what=f"{table.named(a)} times {table.named(b)}")
    value = sum(int(row[a]) * int(row[b]) for row in table.rows)
    return add(f"{table.field(a)}*{table.field(b)}", table.path), value


def _group_totals(scene: Scene) -> Rows:
    role = scene.rng.choice(TEXT_ROLES)
    table, name = numbers(scene, role)
    by = scene.name(role)
    scene.say("group", what=table.named(name), by=table.named(by))
    lines = _totals(table, by, name)
    return Rows(group(table.field(by), table.field(name), table.path), lines, [by, name], order="sorted")


def _totals(table: Table, by: str, name: str) -> list[str]:
    keys = sorted(set(table.values(by)))
    return sorted(f"{key},{sum(int(row[name]) for row in table.rows if row[by] == key)}" for key in keys)


def _values_where(scene: Scene) -> Rows:
    table, name, (where, test, holds) = filtered(scene)
    entity = table.columns[0]
    scene.say("list", what=f"{table.named(entity)} and {table.named(name)}", where=where)
    lines = [f"{row[entity]},{row[name]}" for row in table.rows if holds(row)]
    return Rows(show(f'$1","{table.field(name)}', table.path, test), lines, [entity, name])


def priced(scene: Scene, *roles: str) -> tuple[Table, Table, str, str, dict[str, int]]:
    """Records with a number, and a reference with one rate a category."""
    role = scene.rng.choice(NUMBER_ROLES)
    table = scene.records("category", role, *roles)
    category = scene.name("category")
    rates = {word: scene.rng.randint(2, 29) for word in scene.domain["category"][1]}
    rows = [{category: word, "rate": str(rate)} for word, rate in rates.items()]
    other = scene.table(Table(scene.source("reference", ".csv"), [category, "rate"], rows))
    scene.intro(table, other)
    scene.rule("join", f"by {category}")
    return table, other, category, scene.name(role), rates


def _charge_total(scene: Scene) -> Number:
    table, other, by, name, rates = priced(scene)
    scene.say("add_priced", what=table.named(name), rate=other.named("rate"), by=table.named(by))
    then = f"{{s+={table.field(name)}*m[{table.field(by)}]}} END{{print s+0}}"
    value = sum(int(row[name]) * rates[row[by]] for row in table.rows)
    return lookup("$1", "$2", other.path, then, table.path), value


def _charge_where(scene: Scene) -> Number:
    role = scene.rng.choice(["status", "site"])
    table, other, by, name, rates = priced(scene, role)
    where, test, holds = scene.condition(table, role)
    names = {"what": table.named(name), "rate": other.named("rate"), "by": table.named(by)}
    scene.say("add_priced_where", where=where, **names)
    then = f"&&{test}{{s+={table.field(name)}*m[{table.field(by)}]}} END{{print s+0}}"
    value = sum(int(row[name]) * rates[row[by]] for row in table.rows if holds(row))
    return lookup("$1", "$2", other.path, then, table.path), value


def _charges(scene: Scene) -> Rows:
    table, other, by, name, rates = priced(scene)
    entity, x, k = table.columns[0], table.field(name), table.field(by)
    names = {"what": table.named(name), "rate": other.named("rate"), "by": table.named(by)}
    scene.say("list_priced", key=table.named(entity), **names)
    lines = [f"{row[entity]},{int(row[name]) * rates[row[by]]}" for row in table.rows]
    then = f'{{print $1","{x}*m[{k}]}}'
    return Rows(lookup("$1", "$2", other.path, then, table.path), lines, [entity, "charge"])


def _top_lines(scene: Scene) -> None:
    table = scene.records(size=30)
    path, size, new = table.path, scene.rng.randint(4, 9), scene.output(".csv")
    scene.say("head", a=path, n=size, b=new)
    end_state(scene, f"head -n {size} {path} > {new}", lines={new: table.text.splitlines()[:size]})


def _last_lines(scene: Scene) -> None:
    table = scene.records(size=30)
    path, size, new = table.path, scene.rng.randint(4, 9), scene.output(".csv")
    scene.say("tail", a=path, n=size, b=new)
    end_state(scene, f"tail -n {size} {path} > {new}", lines={new: table.text.splitlines()[-size:]})


def _kept_rows(scene: Scene) -> None:
    table, name, (where, test, holds) = filtered(scene)
    new = scene.output(".csv")
    scene.say("keep", where=where)
    scene.say("into_header", file=new)
    body = [",".join(cells) for cells in table.cells([row for row in table.rows if holds(row)])]
    end_state(scene, f"{keep(test, table.path)} > {new}", lines={new: [",".join(table.columns), *body]})


def _split(scene: Scene) -> None:
    role = scene.rng.choice(TEXT_ROLES)
    table = scene.records(role, size=30)
    name = scene.name(role)
    scene.intro(table)
    scene.say("split", what=table.named(name))
    rows = list(zip(table.values(name), map(",".join, table.cells(table.rows)), strict=True))
    parts = {f"{value}.csv": [line for word, line in rows if word == value] for value in sorted(set(table.values(name)))}
    end_state(scene, f"awk -F, 'NR>1{{print > ({table.field(name)}\".csv\")}}' {table.path}", lines=parts)


def _totals_away(scene: Scene) -> None:
    role = scene.rng.choice(TEXT_ROLES)
    table, name = numbers(scene, role)
    by, new = scene.name(role), scene.output(".csv")
    scene.say("group", what=table.named(name), by=table.named(by))
    scene.say("into_away", file=new, source=table.path)
    command = f"{group(table.field(by), table.field(name), table.path)} > {new} && rm {table.path}"
    end_state(scene, command, lines={new: _totals(table, by, name)}, gone=[table.path], order="sorted")


def _charges_away(scene: Scene) -> None:
    table, other, by, name, rates = priced(scene)
    entity, new = table.columns[0], scene.output(".csv")
    names = {"what": table.named(name), "rate": other.named("rate"), "by": table.named(by)}
    scene.say("list_priced", key=table.named(entity), **names)
    scene.say("into_away", file=new, source=table.path)
    lines = [f"{row[entity]},{int(row[name]) * rates[row[by]]}" for row in table.rows]
    then = f'{{print $1","{table.field(name)}*m[{table.field(by)}]}}'
    command = f"{lookup('$1', '$2', other.path, then, table.path)} > {new} && rm {table.path}"
    end_state(scene, command, lines={new: lines}, gone=[table.path])


def _charged_split(scene: Scene) -> None:
    table, other, by, name, rates = priced(scene)
    entity = table.columns[0]
    amounts = {row[entity]: int(row[name]) * rates[row[by]] for row in table.rows}
    bound = sorted(amounts.values())[len(amounts) // 2]
    high, low = scene.output(".txt"), scene.output(".txt")
    names = {"what": table.named(name), "rate": other.named("rate"), "by": table.named(by)}
    scene.say("split_priced", key=table.named(entity), n=bound, high=high, low=low, **names)
    test = f'{{print $1 > ({table.field(name)}*m[{table.field(by)}]>{bound}?"{high}":"{low}")}}'
    over = [key for key, amount in amounts.items() if amount > bound]
    lines = {high: over, low: [key for key in amounts if key not in over]}
    end_state(scene, lookup("$1", "$2", other.path, test, table.path), lines=lines)


NUMBERS: Kinds = {
    0: [_total, _largest, _smallest],
    1: [_total_where, _average, _average_where, _product_total],
    2: [_charge_total, _charge_where],
}
ROWS: Kinds = {0: [_ordered_values, _two_columns], 1: [_group_totals, _values_where], 2: [_charges]}
STATES: Kinds = {0: [_top_lines, _last_lines, _kept_rows], 1: [_split, _totals_away], 2: [_charges_away, _charged_split]}


def kinds(track: str, level: int, form: str) -> list[Callable[[Scene], None]]:
    """What a card may ask for at levels 0 to 2."""
    return choose(NUMBERS, ROWS, STATES, track, level, form)
