"""Texts as tokens that can be compared: numbers, dates and encoded texts in whatever form they are written."""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import date
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

Tokens = tuple[str, ...]

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_TOKEN = re.compile(r"(?<![\w.])-\d+(?:\.\d+)?(?![\w])|\d+(?::\d+)+|\w+(?:[-.@]\w+)*")
_GROUPED = re.compile(r"(?<![\d,.])\d{1,3}([,_'\u00a0\u2019\u202f])\d{3}(?:\1\d{3})*(?!\d|,\d)")
_CONTINENTAL = re.compile(r"(?<![\d,.])\d{1,3}(?:\.\d{3})*,\d{1,2}(?!\d|[.,]\d)")
_PRECISE = 3  # significant digits from which a rounded number still says which one it was

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = (  # the groups' order as positions of year, month, day
    (re.compile(r"(?<!\d)(\d{4})([-/.]?)(\d{1,2})\2(\d{1,2})(?!\d)"), (1, 3, 4)),
    (re.compile(r"(?<!\d)(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?!\d)"), (3, 2, 1)),
    (re.compile(r"(?<!\d)(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?!\d)"), (3, 1, 2)),
    (re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -]{_MONTH},?[ -](\d{{4}})(?!\d)"), (3, 2, 1)),
    (re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})(?!\d)"), (3, 1, 2)),
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}={0,2}")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}){4,}")


def tokens(value: object) -> Tokens:
    """The tokens of a text, or of all that a JSON value holds, keys included, in order.

    >>> tokens("Sum 1234.50 of Hive-3.")
    ('sum', '1234.5', 'of', 'hive-3')
    """
    if isinstance(value, dict):
        return tuple(token for key, inner in value.items() for token in (*tokens(key), *tokens(inner)))
    if isinstance(value, list):
        return tuple(token for inner in value for token in tokens(inner))
    return tuple(_token(found) for found in _TOKEN.findall(str(value).casefold()))


def readings(text: str) -> tuple[Tokens, ...]:
    """The tokens of a text; more than once where signs may group thousands or a comma may be the decimal point.

    >>> readings("1,234.50")[1], readings("1.234,5")[-1]
    (('1234.5',), ('1234.5',))
    """
    grouped = _GROUPED.sub(lambda found: found[0].replace(found[1], ""), text)
    continental = _CONTINENTAL.sub(lambda found: found[0].replace(".", "").replace(",", "."), text)
    return tuple(dict.fromkeys(tokens(reading) for reading in (text, grouped, continental)))


def starts(whole: Tokens, part: Tokens) -> Iterator[int]:
    """Where the first token of a part stands."""
    return (i for i, token in enumerate(whole) if token in part[:1])


def contains(whole: Tokens, part: Tokens) -> bool:
    """Whether the part stands there in one piece."""
    return any(whole[i : i + len(part)] == part for i in starts(whole, part))


def digits(value: object) -> int:
    """The significant digits of a number."""
    return len(Decimal(str(value)).normalize().as_tuple().digits)


def rounds_to(token: str, value: int | float) -> bool:
    """Whether a token and a number are the same but for rounding or cutting, with three or more digits left.

    >>> rounds_to("12.35", 12.3456), rounds_to("12.3456", 12.35), rounds_to("12", 12.3456), rounds_to("12.4", 12.3456)
    (True, True, False, False)
    """
    if not NUMBER.fullmatch(token):
        return False
    try:
        stated, wanted = Decimal(token), Decimal(str(value))
        if min(digits(stated), digits(wanted)) < _PRECISE:
            return False
        coarse, fine = sorted((stated, wanted), key=_places)
        step = Decimal(1).scaleb(-_places(coarse))
        return any(fine.quantize(step, rounding=way) == coarse for way in (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN))
    except ArithmeticError:  # an exponent beyond what decimals have
        return False


def dates(text: str) -> frozenset[str]:
    """Every date in a text as year-month-day; both where day and month could be either.

    >>> sorted(dates("from 5th of March 2024 to 04/03/2024")), sorted(dates("20240305"))
    (['2024-03-04', '2024-03-05', '2024-04-03'], ['2024-03-05'])
    """
    return frozenset(_dates(text.casefold()))


def is_date(text: str) -> bool:
    """Whether a text is one date and nothing else."""
    return any(pattern.fullmatch(text.strip().casefold()) for pattern, _ in _DATES) and bool(dates(text))


def decoded(text: str) -> Iterator[str]:
    """What base64 and hexadecimal runs of a text stand for, where that is text.

    >>> list(decoded("see MTIzNA== and 31323334"))
    ['1234', '1234']
    """
    whole = "".join(text.split())
    runs = {found[0]: None for found in (*_BASE64.finditer(text), *_HEX.finditer(text), *_BASE64.finditer(whole))}
    for run in runs:
        bare = run.rstrip("=")
        for data in (_from_base64(bare), _from_hex(bare)):
            try:
                plain = data.decode()
            except UnicodeDecodeError:
                continue
            if plain and all(char.isprintable() or char.isspace() for char in plain):
                yield plain


def _from_base64(run: str) -> bytes:
    try:
        return base64.b64decode(run.translate({45: "+", 95: "/"}) + "=" * (-len(run) % 4), validate=True)
    except binascii.Error:
        return b""


def _from_hex(run: str) -> bytes:
    return bytes.fromhex(run) if _HEX.fullmatch(run) else b""


def _dates(text: str) -> Iterator[str]:
    for pattern, places in _DATES:
        for found in pattern.finditer(text):
            year, month, day = (found[place] for place in places)
            try:
                yield date(
                    int(year), _MONTHS.index(month) + 1 if month in _MONTHS else int(month), int(day)
                ).isoformat()
            except ValueError:  # no day of the calendar
                continue


def _token(text: str) -> str:
    if not NUMBER.fullmatch(text):
        return text
    exponent = text.partition("e")[2]
    plain = f"{Decimal(text):f}" if len(text) < 40 and len(exponent) < 4 else text  # not a gigabyte of zeros
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _places(number: Decimal) -> int:
    """Decimal places, without the zeros at the end."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
