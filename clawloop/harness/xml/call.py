"""One call of a reply, written as `<function=...><parameter=...>`, as Qwen3-Coder writes it."""

import re
from collections.abc import Mapping

_CALL = re.compile(r"<function=([^<>\s]*)>\s*(.*?)\s*</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\s]*)>\n?(.*?)\n?</parameter>", re.DOTALL)


class MalformedError(ValueError):
    """A reply has no call that can be made; the message says why, as a clause."""


def read(reply: str, functions: Mapping[str, tuple[str, ...]], start: int = 0) -> tuple[str, dict[str, str]]:
    r"""The name and the arguments of the call in a reply, from `start` on.

    A value loses the line ends next to its tags and nothing else.

    Args:
        reply: the reply.
        functions: the parameters of each function.
        start: where to begin.

    Raises:
        MalformedError: there is not exactly one call, or no function has that name and those parameters.

    >>> read("I look.\n<function=view>\n<parameter=path>\na.txt\n</parameter>\n</function>", {"view": ("path",)})
    ('view', {'path': 'a.txt'})
    """
    found = list(_CALL.finditer(reply, start))
    if "<function=" in _CALL.sub("", reply[start:]):
        raise MalformedError("a <function=...> has no </function>")
    if len(found) != 1:
        raise MalformedError(f"the reply holds {len(found)} calls" if found else "the reply holds no call")
    name, body = found[0].groups()
    if name not in functions:
        raise MalformedError(f"there is no function {name[:100]!a}, only {', '.join(functions)}")
    given = _PARAMETER.findall(body)
    if _PARAMETER.sub("", body).strip():
        raise MalformedError(f"{name} holds text that stands in no parameter")
    if sorted(key for key, _ in given) != sorted(functions[name]):
        takes = " and ".join(functions[name]) or "no parameter"
        raise MalformedError(f"{name} takes {takes}, each once")
    return name, dict(given)
