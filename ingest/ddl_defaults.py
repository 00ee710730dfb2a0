"""The literal after DEFAULT as the canonical text that a row of the column would carry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from ingest.ddl_tokens import Token
from ingest.errors import DecodeError
from ingest.types import parse_type
from ingest.values import base64_of, civil_text, decimal_text, time_text

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_BYTEA = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")
_COMPACT = re.compile(r"(\d{8})(\d{6})?")
_SHORT = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_TRUTHS = {"t": True, "true": True, "y": True, "yes": True, "on": True, "1": True} | {
    "f": False,
    "false": False,
    "n": False,
    "no": False,
    "off": False,
    "0": False,
}


def literal_default(
    tokens: Sequence[Token], source_type: str | None, type_: str | None
) -> tuple[str | None, None] | None:
    """(canonical text, None), where NULL is None; None where the tokens are no plain literal."""
    rest = _bare(tokens)
    if len(rest) == 1 and rest[0].kind == "word":
        word = rest[0].text.upper()
        if word == "NULL":
            return None, None
        if word in ("TRUE", "FALSE"):
            return (word.lower() if type_ == "boolean" else str(int(word == "TRUE"))), None
        return None
    # DATE '2024-01-01', TIMESTAMP '…', and MySQL's character sets _utf8mb4'…'
    if len(rest) == 2 and rest[0].kind == "word" and rest[1].kind == "string":
        typed = rest[0].text.upper() in ("DATE", "TIME", "TIMESTAMP", "N")
        rest = rest[1:] if typed or rest[0].text.startswith("_") else rest
    if len(rest) != 1:
        return None
    text = _canonical(rest[0], source_type or "", type_ or "string")
    return None if text is None else (text, None)


def _bare(tokens: Sequence[Token]) -> list[Token]:
    """Without enclosing parentheses, PostgreSQL's cast of a literal, and with a sign joined on."""
    rest = list(tokens)
    while len(rest) > 2 and (rest[0].text, rest[0].kind, rest[-1].text) == ("(", "mark", ")"):
        rest = rest[1:-1]
    cast = next((at for at, token in enumerate(rest) if token.text == "::"), len(rest))
    if all(token.kind in ("word", "quoted", "number", "mark") for token in rest[cast:]):
        rest = rest[:cast] if cast else rest
    while len(rest) > 2 and (rest[0].text, rest[0].kind, rest[-1].text) == ("(", "mark", ")"):
        rest = rest[1:-1]
    marks = "".join(token.text for token in rest[:-1])
    number = rest[-1:]
    if number and number[0].kind == "number" and marks in ("-", "+", ".", "-.", "+."):
        return [number[0]._replace(text=marks.replace("+", "") + number[0].text)]
    return rest


def _canonical(token: Token, source_type: str, type_: str) -> str | None:
    """Canonical text of one literal in a column of Spark type `type_`; None where it has none."""
    text = token.text
    if token.kind in ("bits", "hex"):
        return _of_bits(text, 2 if token.kind == "bits" else 16, type_)
    if token.kind not in ("string", "number"):
        return None
    if type_ == "binary" and _BYTEA.fullmatch(text) and parse_type(source_type).name == "bytea":
        return base64_of(bytes.fromhex(text[2:]))
    if type_ == "binary":
        return base64_of(text.encode("utf-8", "surrogatepass"))
    if type_ == "boolean":
        truth = _TRUTHS.get(text.strip().lower())
        return None if truth is None else str(truth).lower()
    if type_.startswith("decimal("):
        return _decimal(text, int(type_[:-1].partition(",")[2]))
    if type_ == "date":
        return _dashed(text)
    if type_ in ("timestamp", "timestamp_ntz"):
        return civil_text(_dashed(text), [])
    if type_ in ("int", "bigint") and "." in text:
        return _decimal(text, 0)
    if type_ == "string" and parse_type(source_type).name == "time":
        return time_text(text)
    if token.kind == "number" or type_ in ("int", "bigint", "double"):
        return _plain_number(text)
    return text


def _dashed(text: str) -> str:
    """A date or date-time as MySQL takes it too: `2020-1-1`, `20200101`, `20200101123000`."""
    compact = _COMPACT.fullmatch(text)
    if compact is not None:
        day, clock = compact.groups()
        date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
        return date if clock is None else f"{date} {clock[:2]}:{clock[2:4]}:{clock[4:]}"
    short = _SHORT.match(text)
    if short is None:
        return text
    return f"{short[1]}-{short[2].zfill(2)}-{short[3].zfill(2)}{text[short.end() :]}"


def _of_bits(digits: str, base: int, type_: str) -> str | None:
    """`b'101'`, `x'4F'`, `0x4F` by the column's type: a number, a truth, bytes, characters."""
    try:
        number = int(digits, base)
    except ValueError:
        return None
    if type_ == "boolean":
        return str(number != 0).lower()
    if type_ in ("int", "bigint", "double") or type_.startswith("decimal("):
        return str(number)
    size = (len(digits) + 7) // 8 if base == 2 else (len(digits) + 1) // 2
    data = number.to_bytes(size, "big")
    if type_ == "binary":
        return base64_of(data)
    if base == 2:
        return digits  # PostgreSQL's bit(n) is text of its digits
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _plain_number(text: str) -> str | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    return re.sub(r"^(-?)\.", r"\g<1>0.", text.removeprefix("+")).removesuffix(".")


def _decimal(text: str, scale: int) -> str | None:
    """With the column's scale, as its rows come: 0 of decimal(10,2) is 0.00."""
    number = _plain_number(text)
    if number is None:
        return None
    try:
        plain = decimal_text(number)
    except DecodeError:
        return None
    whole, _, digits = plain.partition(".")
    if len(digits) <= scale:
        return f"{whole}.{digits.ljust(scale, '0')}" if scale else whole
    # The source rounds half away from zero when it stores the default.
    unit = Decimal(1).scaleb(-scale)
    return format(Decimal(plain).quantize(unit, rounding="ROUND_HALF_UP"), "f")
