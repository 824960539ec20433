"""Text that a model or a generator wrote, made fit for a terminal: it cannot drive it."""

_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


def printable(text: str) -> str:
    """The text with control characters and invisible ones written out."""
    return text.translate(_HIDDEN)
