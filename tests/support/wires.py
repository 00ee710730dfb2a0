"""Reading what `tests.support.encoders` writes: the silver rows of changes sent over one wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import DECODED
from ingest.wire.contract import Message
from tests.support.changes import DB, TABLE, Change
from tests.support.encoded_cells import ZONE
from tests.support.encoders import WIRES

NAMES = tuple(column.name for column in DECODED)


def reader_of(wire: str, columns: Mapping[str, str], **given: Any) -> SourceDecoder:
    """The reader of a source of `wire`, whose YAML names the types where the messages do not."""
    sent = WIRES[wire]
    source = {
        "name": "farm",
        "kafka": {"bootstrap_servers": "broker:9092", "topics": ["crops"]},
        "format": sent.format,
        "time_zone": ZONE,
        "keys": {f"{DB}.{TABLE}": ["id"]},
        "options": dict(sent.options),
        **given,
    }
    if not sent.typed:
        source["columns"] = {f"{DB}.{TABLE}": dict(columns)}
    return SourceDecoder(decode_spec(Source.model_validate(source)))


def message_of(wire: str, change: Change, **coordinates: Any) -> Message:
    """A change as it comes over a wire, with its transport key where the wire has one."""
    sent = WIRES[wire]
    key = sent.key(change) if sent.key is not None else None
    return Message(sent.encode(change), key, **coordinates)


def as_dicts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def read(
    wire: str, *changes: Change, columns_of: Mapping[str, str] | None = None, **given: Any
) -> list[dict[str, Any]]:
    """The silver rows of the changes, schema rows left out.

    `columns_of`: all columns of the table, where the first change does not have them all.
    """
    reader = reader_of(wire, columns_of or changes[0].columns, **given)
    rows = [
        row
        for change in changes
        for row in reader.rows(
            message_of(
                wire,
                change,
                topic="crops",
                offset=change.number,
                timestamp=change.seconds * 1000,
            )
        )
    ]
    return [row for row in as_dicts(rows) if row["kind"] != "schema"]
