"""The six types of StreamX, and how the values of a table's columns become text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.codes import Code
from ingest.events import ColumnType
from ingest.formats.oms.values import base64_text, oms_converter, truth
from ingest.values import canonical
from ingest.values.source_types import parse_type, spark_type, types_of
from ingest.wire.declared import Columns, Convert, in_any_case, in_sent_names, plain

_PARTS = {"date": slice(0, 10), "time": slice(11, None), "timestamp_ntz": slice(None)}
"""The part of a zone-less `yyyy-MM-dd HH:mm:ss[.f]` that a declared type keeps."""


def columns_of(
    sent: Mapping[str, str], declared: Mapping[str, str], *, family: str, zone: str | None
) -> Columns:
    """The columns of a table: the message's own types `sent`, overruled by the YAML's `declared`.

    `family` is the type family of the source's database, whose types the YAML names. A DATE is an
    instant; declared as a zone-less type, it is the time that clocks in `zone` showed.
    """
    declared = in_sent_names(declared, sent)
    convert, instant = oms_converter(family, zone), _instant_in(zone)
    types: dict[str, str] = {}
    converts: dict[str, Convert | None] = {}
    for name, text in sent.items():
        known = ("timestamp", instant) if text.upper() == "DATE" else _SIX.get(text.upper())
        types[name], converts[name] = known or (spark_type(text, family), convert(text))
    for name, text in declared.items():
        types[name] = spark_type(text, family)
        if sent.get(name, "").upper() == "DATE":
            converts[name] = _of_date(
                "time" if parse_type(text).name == "time" else types[name], zone
            )
        else:
            converts[name] = convert(text)
    texts = {**sent, **declared}
    columns = tuple(ColumnType(name, texts[name], type_) for name, type_ in types.items())
    return Columns(
        types_of(columns) if columns else None,
        in_any_case({name: found for name, found in converts.items() if found is not None}),
        frozenset(in_any_case(types)),
    )


def _of_date(kept: str, zone: str | None) -> Convert | None:
    """Converter of a DATE for a column declared as `kept`; other types keep the number."""
    if kept == "timestamp":
        return _instant_in(zone)
    part = _PARTS.get(kept)
    if part is None:
        return None

    def convert(value: Any, warnings: list[str]) -> str:
        millis = _millis(value)
        if millis is None:
            return plain(value)
        if zone is None:
            warnings.append(Code.TZ_ASSUMED.value)
        sent = plain(value)
        text = canonical.civil_in(millis, 1000, zone=zone or "UTC", sent=sent, warnings=warnings)
        return sent if text == sent else text[part]

    return convert


def _instant_in(zone: str | None) -> Convert:
    """Converter of a DATE to an instant; a text without a zone is read in `zone`."""

    def convert(value: Any, warnings: list[str]) -> str:
        millis = value if value.__class__ is int else _millis(value)
        if millis is None:
            return canonical.instant_text(plain(value), zone, warnings)
        return canonical.instant_or_sent(millis, 1000, sent=plain(value), warnings=warnings)

    return convert


def _millis(value: Any) -> int | None:
    """Milliseconds since the epoch, whatever their size; None for a value of another kind."""
    text = plain(value)
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else None


_SIX: dict[str, tuple[str, Convert | None]] = {
    "BOOLEAN": ("boolean", truth),
    "LONG": ("bigint", None),
    "DOUBLE": ("double", None),
    "BYTES": ("binary", base64_text),
    "STRING": ("string", None),
}
