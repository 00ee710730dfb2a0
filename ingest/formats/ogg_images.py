"""Row images of GoldenGate: their values, and the columns that the trail did not hold.

With `includeIsMissing` a column `c` has a companion `c_isMissing`, true where the trail had no
value for it: its null means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ingest import jsontext
from ingest.events import Row
from ingest.formats.columns import Convert, Texts, plain, sql_converter
from ingest.formats.format import FormatOptions
from ingest.formats.table_rows import TableRows
from ingest.formats.typed_rows import TypedRows
from ingest.types import spark_type

_COMPANION = "_isMissing"
_METADATA = (
    "table",
    "op_type",
    "op_ts",
    "current_ts",
    "pos",
    "xid",
    "csn",
    "primary_keys",
    "tokens",
)
_FLATTENED = ("before.", "after.")
_DATES = ("date", "timestamp", "timestamp_ntz")


class Image(NamedTuple):
    """A row, the columns that the trail lacked, and whether companions told which those are."""

    row: Row | None
    missing: list[str]
    told: bool

    def word(self, keys: tuple[str, ...] | None, sure: bool) -> str:
        """How complete the row is; `sure`: it is whole but for what is missing."""
        if self.row is not None and keys and self.row.keys() == set(keys):
            return "key"
        return "partial" if self.missing or not (sure or self.told) else "full"


def read_image(raw: msgspec.Raw, rows: TypedRows, warnings: list[str]) -> Image | None:
    """A row image; None for null, `{}` and nothing. Raises bad_json, bad_shape, bad_value."""
    columns = jsontext.image(raw, warnings)
    if columns is None:
        return None
    text = bytes(raw)
    return _image(columns, text, rows, warnings)


def rows_of(
    value: bytes, rows: TypedRows, warnings: list[str]
) -> tuple[Image | None, Image | None]:
    """The rows before and after of a message whose columns stand on top: of `json_row` there is
    the one after, of flattened JSON (`before.c`, `after.c`) there are both. Raises as `read_image`.
    """
    top = jsontext.parse(value, jsontext.members, [])
    row = {name: raw for name, raw in top.items() if name not in _METADATA}
    for name in ("before", "after"):
        if row.get(name) == b"null":
            del row[name]
    if row and all(name.startswith(_FLATTENED) for name in row):
        images = [
            {name.removeprefix(part): raw for name, raw in row.items() if name.startswith(part)}
            for part in _FLATTENED
        ]
    else:
        images = [{}, row]
    old, new = (msgspec.Raw(msgspec.json.encode(image)) for image in images)
    return read_image(old, rows, warnings), read_image(new, rows, warnings)


def _image(
    columns: dict[str, Any], text: bytes, rows: TypedRows, warnings: list[str]
) -> Image | None:
    missing: list[str] = []
    told = False
    if _COMPANION.encode() in text:
        for name in [name for name in columns if name.endswith(_COMPANION)]:
            column = name.removesuffix(_COMPANION)
            if columns[name].__class__ is bool and column in columns:
                told = True
                if columns.pop(name):
                    missing.append(column)
        for name in missing:
            del columns[name]
    if not columns:
        return Image(None, missing, told)
    rows.texts(columns, text, warnings)
    return Image(columns, missing, told)


def ogg_rows(options: FormatOptions, dialect: str) -> TableRows:
    """How the rows of GoldenGate's tables are read, by the types that the YAML names."""
    texts = Texts(family=dialect, zone=options.time_zone)
    return TableRows(options, texts, convert=_converter(texts))


def _converter(texts: Texts) -> Callable[[str], Convert | None]:
    """SQL type -> converter; GoldenGate may write a colon between day and time."""
    by_sql_type = sql_converter(texts)

    def convert(source_type: str) -> Convert | None:
        found = by_sql_type(source_type)
        if found is None or spark_type(source_type, texts.family) not in _DATES:
            return found
        return _spaced(found)

    return convert


def _spaced(convert: Convert) -> Convert:
    def of(value: Any, warnings: list[str]) -> str | None:
        text = plain(value)
        if text[10:11] == ":":
            text = f"{text[:10]} {text[11:]}"
        return convert(text, warnings)

    return of
