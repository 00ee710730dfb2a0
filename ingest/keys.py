"""A change's key: which columns it has, its values, and its hash.

Where a key comes from (rulings.md, 21): the source's `keys`, else the message, else the Kafka key.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import msgspec
import xxhash

from ingest.codes import Code
from ingest.events import Event, Row

_OBJECT = msgspec.json.Decoder(dict[str, Any], float_hook=str)


def keyed(event: Event, columns: tuple[str, ...] | None) -> None:
    """Give `event` its key columns, and its key values from the images where it has none yet.

    The key of a delete is that of the row before; of any other change that of the row after. An
    update also gets `key_before`, equal to `key` unless the update changed it.
    """
    if not columns:
        event.key_columns = None
        return
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
    """The signed xxh64 of the key's values; None where the key is unknown, incomplete or changes.

    So an event of key k is found among the rows whose hash is k's or null.
    """
    key, columns, before = event.key, event.key_columns, event.key_before
    if key is None or columns is None or len(key) != len(columns):
        return None
    if before is not None and before != key:
        return None
    return hash_values(key.values())


def hash_values(values: Collection[str | None]) -> int:
    """The hash of key values in key column order, each canonical text or None."""
    texts: Any = values
    if None in values:
        texts = ["\x00" if value is None else value for value in values]
    number = xxhash.xxh64_intdigest("\x1f".join(texts).encode())
    return number - 2**64 if number >= 2**63 else number


@lru_cache(maxsize=4096)
def _names(key: bytes) -> tuple[str, ...] | None:
    try:
        found = _OBJECT.decode(key)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    inner = found.get("payload", found) if "schema" in found else found
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
