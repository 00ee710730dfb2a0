"""A change's key: which columns it has, its values, and its hash.

A key comes from the source's `keys`, else from the message, else from the Kafka key (semantics.md,
21). A key is its typed value (79), and silver does not know the type, so the hash is of a spelling
that all texts of one number share. So `00007`, `+7` and `7` have one hash, whether gold takes them
for one integer or for three texts: the hash only narrows the search, and the rows found are then
compared by their typed keys.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

import msgspec
import xxhash

from ingest.codes import Code
from ingest.events import Event, Row
from ingest.identity import digests, signed
from ingest.names import lowered
from ingest.values.jsontext import UNREADABLE

_BLANKS = "".join(map(chr, [*range(33), 127]))
"""The characters that Spark ignores around a number."""
_NUMBER = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?)0*(\d{1,9}))?")
_DIGITS_MOST = 60
"""More digits than any type has by which a key is looked up."""
_OBJECT = msgspec.json.Decoder(dict[str, Any], float_hook=str)


def keyed(event: Event, columns: tuple[str, ...] | None) -> None:
    """Give `event` its key columns, and its key values from the images where it has none yet.

    The key of a delete is that of the row before; of any other change that of the row after. An
    update also gets `key_before`, equal to `key` unless the update changed it.
    """
    if not columns:
        event.key_columns = None
        return
    if len(columns) > 1 and len(lowered(columns)) < len(columns):
        columns = _distinct(columns, event.after or event.before or {})
    if event.key_columns != columns:
        event.key_columns = columns
        event.key = event.key_before = None
    if event.key is not None:
        return
    before, after = event.before, event.after
    if event.op == "delete" or (after is None and before is not None):
        event.key = _values(before, columns, event)
    elif after is not None:
        event.key = _values(after, columns, event)
        if event.op == "update" and before is not None and event.key_before is None:
            event.key_before = _values(before, columns, event)


def _distinct(columns: tuple[str, ...], row: Row) -> tuple[str, ...]:
    """The key's columns, each once: names that differ only in case are one column, unless the row
    has a column of each name."""
    found: dict[str, str] = {}
    for column in columns:
        known = found.setdefault(column.lower(), column)
        if known != column and column in row:
            if known in row:
                found[column] = column
            else:
                found[column.lower()] = column
    return tuple(dict.fromkeys(found.values()))


def _values(image: Row | None, columns: tuple[str, ...], event: Event) -> Row | None:
    if image is None:
        return None
    try:
        if len(columns) == 1:
            return {columns[0]: image[columns[0]]}
        return {column: image[column] for column in columns}
    except KeyError:
        pass
    folded = {name.lower(): name for name in image}
    found = {column: folded[column.lower()] for column in columns if column.lower() in folded}
    if len(found) < len(columns):
        event.warnings = [*(event.warnings or ()), Code.KEY_NOT_IN_IMAGE.value]
    return {column: image[name] for column, name in found.items()} or None


def key_hash(event: Event) -> int | None:
    """The signed xxh64 of the key's values; None if the key is unknown, incomplete or changes.

    So an event of key k is found among the rows whose hash is k's or null.
    """
    key, columns, before = event.key, event.key_columns, event.key_before
    if key is None or columns is None or len(key) != len(columns):
        return None
    if before is not None and before != key:
        return None
    return hash_values(key.values())


def hash_values(values: Collection[str | None]) -> int:
    """The hash of key values in key column order; the same for texts of the same numbers."""
    return signed(xxhash.xxh64_intdigest(_hashed(values)))


def hash_keys(keys: Iterable[Collection[str | None]]) -> list[int]:
    """`hash_values` of many keys."""
    return digests(map(_hashed, keys))


def _hashed(values: Collection[str | None]) -> bytes:
    return "\x1f".join(
        ["\x00" if value is None else one_spelling(value) for value in values]
    ).encode()


def one_spelling(text: str) -> str:
    """The same text for all texts of one number, `7` for `007` and `7.0`; any other text as it
    is."""
    if text.isdecimal() and text[0] != "0" and text.isascii():
        return text
    found = _NUMBER.fullmatch(text.strip(_BLANKS))
    if found is None:
        return text
    sign, whole, part, alone, lower, power = found.groups()
    whole, fraction = whole or "", part or alone or ""
    digits = (whole + fraction).lstrip("0")
    # The value is 0.`digits` times ten to the power of `point`.
    point = len(digits) - len(fraction) + int(power or 0) * (-1 if lower == "-" else 1)
    if not digits.isascii():
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
        point, digits = point - len(digits) + len(digits.lstrip("0")), digits.lstrip("0")
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if len(digits) > _DIGITS_MOST or abs(point) > _DIGITS_MOST:
        return text
    shifted = digits.rjust(len(digits) - min(point, 0), "0").ljust(point, "0")
    before, after = shifted[: max(point, 0)], shifted[max(point, 0) :]
    return f"{'-' if sign == '-' else ''}{before or '0'}{f'.{after}' if after else ''}"


@lru_cache(maxsize=4096)
def _names(key: bytes) -> tuple[str, ...] | None:
    try:
        found = _OBJECT.decode(key)
    except UNREADABLE:
        return None
    wrapped = "schema" in found or found.keys() == {"schemaId", "payload"}
    inner = found.get("payload", found) if wrapped else found
    return tuple(inner) if isinstance(inner, dict) and inner else None


def message_key_columns(key: bytes, event: Event) -> tuple[str, ...] | None:
    """The column names of a Kafka key that is a JSON object, where the row has them all."""
    names = _names(key)
    row = event.after if event.after is not None else event.before
    if names is None:
        event.warnings = [*(event.warnings or ()), Code.BAD_MESSAGE_KEY.value]
        return None
    if row is None or not all(name in row for name in names):
        return None
    return names
