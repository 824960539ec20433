"""Reading an untrusted program before it runs, for calls whose result depends on the moment or the machine."""

import ast
import threading
from collections.abc import Iterator

_CLOCKS = (
    "time time_ns localtime gmtime ctime asctime strftime monotonic monotonic_ns "
    "perf_counter perf_counter_ns process_time process_time_ns thread_time"
)
_HAZARDS = {
    **{f"time.{name}": "the clock" for name in _CLOCKS.split()},
    **{f"datetime.datetime.{name}": "the clock" for name in ("now", "today", "utcnow")},
    "datetime.date.today": "the clock",
    **{f"uuid.{name}": "chance" for name in ("uuid1", "uuid4", "getnode")},
    **{f"os.{name}": "chance" for name in ("urandom", "getrandom")},
    **{f"os.{name}": "the machine" for name in ("getpid", "getppid", "times", "cpu_count", "uname", "getloadavg")},
    **{
        f"secrets.{name}": "chance"
        for name in ("token_hex", "token_bytes", "token_urlsafe", "randbelow", "choice", "randbits")
    },
    "secrets.SystemRandom": "chance",
    "random.SystemRandom": "chance",
    **{
        f"locale.{name}": "the locale" for name in ("getlocale", "getdefaultlocale", "localeconv", "strcoll", "strxfrm")
    },
    "socket.gethostname": "the machine",
    "platform.node": "the machine",
}
_BUILTINS = {"hash": "the hash seed", "id": "memory addresses"}
_LISTINGS = {"os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob"}
_LISTING_METHODS = {"iterdir", "glob", "rglob"}
_ORDERED = {"sorted", "len", "set", "frozenset"}  # what makes the order of a listing harmless at once


_DEEPEST = 150
_PARSING = threading.Lock()  # in CPython 3.11 two threads that parse at once break each other with a SystemError


def first_hazard(program: str) -> str:
    r"""What a program must not call, as one sentence with the line; empty where nothing was found.

    Found: clocks; uuid1, uuid4, secrets and os.urandom; the random module's own generator if never seeded, and
    `Random()` without a seed; directory listings that are not sorted in the same expression; hash() and id(); process
    and host names; the locale. Imports are followed through their aliases.

    >>> first_hazard("from datetime import date as d\nprint(d.today())")
    'line 2 calls datetime.date.today, which depends on the clock.'
    >>> first_hazard("import random\nprint(random.Random(3).random())")
    ''
    """
    try:
        tree = parse(program)
    except ValueError as error:
        return str(error)
    found = sorted(_hazards(tree, imports(tree)))
    return f"line {found[0][0]} calls {found[0][1]}, which depends on {found[0][2]}." if found else ""


def parse(program: str) -> ast.Module:
    """A program as a tree, shallow enough to be walked by recursion; nothing of it runs.

    Raises:
        ValueError: it cannot be parsed; the sentence says why.
    """
    try:
        tree = syntax_tree(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the program cannot be parsed: {str(error)[:200]}") from error
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ValueError("the program cannot be parsed: it is nested too deeply.")


def syntax_tree(program: str) -> ast.Module:
    """`ast.parse`, for threads that ask at the same time: all parsing in this process goes through here."""
    with _PARSING:
        return ast.parse(program)


def imports(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for: {"d": "datetime.date"} after `from datetime import date as d`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                item.asname or item.name.split(".")[0]: item.name if item.asname else item.name.split(".")[0]
                for item in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
    return names


def dotted(node: ast.expr, imports: dict[str, str]) -> str:
    """The full name of what an expression refers to: random.Random for `r.Random` after `import random as r`."""
    if isinstance(node, ast.Name):
        return imports.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        above = dotted(node.value, imports)
        root = above.split(".")[0]
        return f"{above}.{node.attr}" if above and root in {path.split(".")[0] for path in imports.values()} else ""
    return ""


def _hazards(tree: ast.AST, imports: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    nodes = list(ast.walk(tree))
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    seeded = any(dotted(call.func, imports) == "random.seed" and call.args for call in calls)
    harmless = {
        id(argument)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in _ORDERED
        for argument in call.args
    }
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        name = dotted(node, imports)
        if name in _HAZARDS:
            yield node.lineno, name, _HAZARDS[name]
        elif name in _BUILTINS and name not in own and isinstance(node, ast.Name) and name not in imports:
            yield node.lineno, f"{name}()", _BUILTINS[name]
        elif name.startswith("random.") and name not in ("random.Random", "random.seed") and not seeded:
            yield node.lineno, name, "chance: it has no seed"
    for call in calls:
        name = dotted(call.func, imports)
        if name in ("random.Random", "random.seed") and not call.args and not call.keywords:
            yield call.lineno, name, "chance: it has no seed"
        method = isinstance(call.func, ast.Attribute) and call.func.attr in _LISTING_METHODS
        if (name in _LISTINGS or method) and id(call) not in harmless:
            yield call.lineno, name or "a listing", "directory order; sort it in the same expression"
