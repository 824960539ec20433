"""Tables, and the command lines that read them: awk, cut, sort."""

from collections.abc import Callable

Row = dict[str, str]
Condition = tuple[str, str, Callable[[Row], bool]]  # in words, in awk, as a predicate


class Table:
    """A CSV file: its path, its columns and its rows."""

    def __init__(self, path: str, columns: list[str], rows: list[Row]) -> None:
        self.path, self.columns, self.rows = path, columns, rows

    @property
    def text(self) -> str:
        """The file's text."""
        return "".join(",".join(cells) + "\n" for cells in [self.columns, *self.cells(self.rows)])

    def cells(self, rows: list[Row]) -> list[list[str]]:
        """Rows as lists, in the order of the columns."""
        return [[row[column] for column in self.columns] for row in rows]

    def field(self, column: str) -> str:
        """A column in awk: $2."""
        return f"${self.columns.index(column) + 1}"

    def named(self, column: str) -> str:
        """A column in words: its name with its place."""
        return f"{column} ({self.field(column)})"

    def values(self, column: str) -> list[str]:
        """A column's values, row by row."""
        return [row[column] for row in self.rows]

    def total(self, column: str, keep: Callable[[Row], bool] = lambda row: True) -> int:
        """The sum of a column over the rows that `keep` holds for."""
        return sum(int(row[column]) for row in self.rows if keep(row))


def count(test: str, path: str) -> str:
    """Count rows."""
    return f"awk -F, 'NR>1&&{test}{{n++}} END{{print n+0}}' {path}"


def add(expression: str, path: str, test: str = "") -> str:
    """Sum an expression, over all rows or some."""
    return f"awk -F, 'NR>1{'&&' + test if test else ''}{{s+={expression}}} END{{print s+0}}' {path}"


def mean(field: str, path: str, test: str = "") -> str:
    """The mean of a field to two decimals."""
    return f"awk -F, 'NR>1{'&&' + test if test else ''}{{s+={field};n++}} END{{printf \"%.2f\\n\",s/n}}' {path}"


def show(what: str, path: str, test: str = "") -> str:
    """Print something of each row."""
    return f"awk -F, 'NR>1{'&&' + test if test else ''}{{print {what}}}' {path}"


def keep(test: str, path: str) -> str:
    """The header and some rows."""
    return f"awk -F, 'NR==1||{test}' {path}"


def column(field: str, path: str) -> str:
    """A column without its header."""
    return f"awk -F, 'NR>1' {path} | cut -d, -f{field[1:]}"


def group(by: str, field: str, path: str, test: str = "") -> str:
    """Totals per value of a field, sorted."""
    rows = f"NR>1{'&&' + test if test else ''}"
    return f"awk -F, '{rows}{{s[{by}]+={field}}} END{{for(k in s) print k\",\"s[k]}}' {path} | sort"


def lookup(key: str, value: str, reference: str, then: str, path: str) -> str:
    """Load m[key] = value from the reference, then go over the rows of the other file."""
    return f"awk -F, 'NR==FNR{{m[{key}]={value};next}} FNR>1{then}' {reference} {path}"
