"""Columns whose value the connector could not supply, recognised by its placeholder in all its
forms.

- **Debezium.** An unchanged TOAST column or LOB comes as the placeholder text; as its base64 if
  bytes are declared; as a list with the text, its base64, its ASCII codes or the UUID made of it;
  or as a map from the text to itself. Such a column is taken out of the image: it is never NULL and
  never a value.
- **Spanner** has no placeholder: its change stream leaves columns out, and the connector writes
  null.
- **YugabyteDB.** Its connectors write null for a column that the statement left alone, and a cell
  for any other, `value` beside `set`.
- **SQL Server** has null in its change tables, from which the connector reads the row before: for
  `text`, `ntext` and `image` always, for the other large types if an update left them alone.

Sources: Debezium `unavailable.value.placeholder`, UnchangedToastedPlaceholder (3.6); its connector
for Spanner (KafkaSpannerTableSchemaFactory, 4cbc465);
https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql;
https://cloud.google.com/spanner/docs/change-streams#value-capture-type;
https://docs.yugabyte.com/stable/additional-features/change-data-capture/using-logical-replication/transformers/.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from ingest.formats.debezium.values import days
from ingest.values.jsontext import members
from ingest.values.source_types import parse_type
from ingest.wire.doubled_names import check_names

DEFAULT = "__debezium_unavailable_value"


class NotCaptured(NamedTuple):
    """The columns of the row before and of the row after whose null says nothing."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


def not_captured(
    captured: str | None,
    *,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    key: Collection[str] | None,
) -> NotCaptured:
    """The columns that Spanner's change stream leaves out of a change, and that come as null.

    For an update, `captured` means the new values, or the new and old ones, of the columns that it
    changes, or the new row, with or without the old values; for a delete, the old row or nothing.
    The key's columns are always there. A column that changed to or from NULL has a value on the
    other side, if both are captured.
    """
    nulls = [
        {name for name, value in (image or {}).items() if value is None}.difference(key or ())
        for image in (before, after)
    ]
    if after is None:
        kept = captured in ("OLD_AND_NEW_VALUES", "NEW_ROW_AND_OLD_VALUES")
        return NotCaptured(frozenset(() if kept else nulls[0]))
    if captured == "NEW_ROW_AND_OLD_VALUES":
        return NotCaptured(frozenset(nulls[0] - nulls[1]))
    if captured == "NEW_ROW":
        return NotCaptured(frozenset(nulls[0]))
    if captured == "OLD_AND_NEW_VALUES" and before is not None:
        both = frozenset(nulls[0] & nulls[1])
        return NotCaptured(both, both)
    return NotCaptured(frozenset(nulls[0]), frozenset(nulls[1]))


_ALWAYS = {"text", "ntext", "image"}
_SIZED = {"varchar", "nvarchar", "varbinary"}
_LARGE = {"xml", "json", "geometry", "geography", "string", "bytes", "binary"}
_LARGE |= {f"io.debezium.data.{name}" for name in ("xml", "json")}
_LARGE |= {f"io.debezium.data.geometry.{name}" for name in ("geometry", "geography")}
_LONGEST = 8000
"""Bytes of the longest text of SQL Server that is no large value."""


def large_values(types: Mapping[str, str]) -> dict[str, bool]:
    """The columns, by the names of their types, whose null in a change table of SQL Server may
    stand for a value: always (True), or if an update left the column alone (False).

    A type that Connect alone named, string or bytes, may be a large one.
    """
    found: dict[str, bool] = {}
    for name, text in types.items():
        type_ = parse_type(text)
        if type_.name in _ALWAYS:
            found[name] = True
        elif type_.name in _SIZED:
            length = (*type_.numbers, None)[0]
            if length is None or not 0 < length <= _LONGEST:
                found[name] = False
        elif type_.name in _LARGE and not type_.args:
            found[name] = False
    return found


def not_in_change_table(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    large: Mapping[str, bool],
    known: Collection[str],
) -> NotCaptured:
    """The columns that SQL Server's change table leaves out of the row before, and that come as
    null. `known`: the columns that have a type; of others, text alone may be large.

    A column that is NULL after an update was NULL before it too, or it changed and was captured.
    """
    found = set()
    for name, value in (before or {}).items():
        if value is None:
            always = large.get(name)
            new = (after or {}).get(name)
            untold = always is None and name not in known and new.__class__ is str
            if always or (new is not None and (always is False or untold)):
                found.add(name)
    return NotCaptured(frozenset(found))


VALUE, SET = "value", "set"


def without_cells(image: dict[str, Any] | None, raw: bytes) -> tuple[bytes, frozenset[str]] | None:
    """An image of YugabyteDB's, whose values all are cells or null: its text with the values of the
    cells, null if there is none, and the columns that are not set. None for other images.

    Raises contradiction if a cell says two things.
    """
    found = False
    for cell in (image or {}).values():
        if cell is not None:
            if cell.__class__ is not dict or cell.keys() != {VALUE, SET}:
                return None
            found = True
    if not found:
        return None
    values: dict[str, msgspec.Raw | None] = {}
    for name, cell in members(raw).items():
        check_names(bytes(cell), flat=False, envelope=())
        inside = members(bytes(cell)) if bytes(cell) != b"null" else {}
        is_set = bytes(inside.get(SET, b"")) == b"true"
        values[name] = inside[VALUE] if is_set else None
    unset = frozenset(name for name, value in values.items() if value is None)
    return msgspec.json.encode(values), unset


_HEX = "hex:"


def placeholder_bytes(text: str) -> bytes:
    """The bytes of a placeholder; raises ValueError for what is not hexadecimal behind `hex:`."""
    if not text.startswith(_HEX):
        return text.encode()
    try:
        return bytes.fromhex(text.removeprefix(_HEX))
    except ValueError:
        raise ValueError(f"expected hexadecimal digits behind {_HEX}, got `{text}`") from None


class Placeholder:
    """All forms of one placeholder; with the prefix `hex:` its bytes are given in hexadecimal.

    `texts`: the forms that are text. `hexadecimal`: bytes come in hexadecimal
    (`binary.handling.mode=hex`).
    """

    def __init__(self, text: str = DEFAULT, *, hexadecimal: bool = False) -> None:
        data = placeholder_bytes(text)
        text = data.decode("latin-1") if text.startswith(_HEX) else text
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        named = str(uuid.UUID(bytes=bytes(digest), version=3))
        packed = base64.b64encode(data).decode()
        codes = list(data)
        self._lists: tuple[list[Any], ...] = ([text], [packed], [named], codes)
        # Avro's lists and maps are text by now, as is a map with hstore.handling.mode json.
        dates = [days(code, []) for code in codes]
        lists = tuple(msgspec.json.encode(shape).decode() for shape in (*self._lists, dates))
        maps = (msgspec.json.encode({text: text}).decode(), f'{{"{text}": "{text}"}}')
        self.texts = frozenset(
            (text, packed, packed.rstrip("="), base64.urlsafe_b64encode(data).decode())
            + (*lists, *maps)
            + ((data.hex(),) if hexadecimal else ())
        )
        self._map = {text: text}

    def columns(self, image: dict[str, Any]) -> list[str]:
        """The columns of `image` that hold the placeholder."""
        try:
            if self.texts.isdisjoint(image.values()):
                return []
        except TypeError:
            # Lists and maps have no hash.
            pass
        return [name for name, value in image.items() if self._is(value)]

    def _is(self, value: Any) -> bool:
        kind = value.__class__
        if kind is list:
            return value in self._lists
        if kind is dict:
            return bool(value == self._map)
        return value in self.texts
