"""The Event that a decoder yields, and the one schema of `silver.cdc`, with each column explained.

A decoder fills an `Event`. Then `ingest.decode.source`, or `ingest.decode.tables` if messages are
read by column, adds what the transport knows (source, topic, partition, offset, row, pos) and makes
the row of `SILVER`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError

Row = dict[str, str | None]
"""One row image: column -> canonical text; None is SQL NULL, an absent column was not sent."""

KINDS = ("change", "ddl", "control", "schema", "fragment", "reject")
OPS = {
    "change": ("insert", "update", "delete", "snapshot", "truncate"),
    "ddl": ("ddl",),
    "control": ("begin", "commit", "rollback", "heartbeat", "checkpoint", "query", "other"),
    "fragment": ("insert", "update", "delete"),
}
KIND_OF = {op: kind for kind, ops in OPS.items() if kind != "fragment" for op in ops}
IMAGES = ("full", "partial", "key")
COMMITS = {"commit": "true"}
"""The `extra` of a change that is the last of its transaction, if no message of its own tells the
end."""


class ColumnType(NamedTuple):
    """One column of a source table: its name, the type as the source names it, and the Spark
    type."""

    name: str
    source_type: str
    type: str


class Types(msgspec.Struct, frozen=True, gc=False):
    """The column types that came with a row: `id` is their fingerprint, equal for equal columns."""

    id: str
    columns: tuple[ColumnType, ...]


class Event(msgspec.Struct, gc=False, kw_only=True):
    """One thing that happened at the source, as a decoder saw it.

    `order` holds up to five integers s1…s5 (semantics.md, 12), None if the message carries no
    order key. `event_time` and `sent_time` are microseconds since 1970-01-01 UTC. `key` and
    `key_before` may stay None: they are filled from the images by `key_columns`; a decoder sets
    them only where key values lie outside the images. `half` is 0 for the lone before-half of a
    split update, else 1. `broadcast`: the producer sends a copy of the statement to every partition
    of the topic. `crowded`: other changes may stand at the same `order`. `dialect` is that of `ddl`
    (`ingest.ddl.parse.dialect_of`), where the message names its database. `number`: of how many of
    its message's events at the same `order` it is the next; None: of all before it. A message that
    is a batch of events, each with a place of its own, may be another when they are sent again.

    The fields `op` to `scn` and `event_time` to `extra` stand in the order of SILVER: a row takes
    them over by position.
    """

    op: str
    op_raw: str | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    key_columns: tuple[str, ...] | None = None
    key: Row | None = None
    key_before: Row | None = None
    before: Row | None = None
    after: Row | None = None
    before_image: str | None = None
    after_image: str | None = None
    unavailable: list[str] | None = None
    id: str | None = None
    sequenceId: str | None = None
    storeDataSequence: str | None = None
    scn: str | None = None
    event_time: int | None = None
    sent_time: int | None = None
    tx_id: str | None = None
    extra: dict[str, str] | None = None
    kind: str = "change"
    format: str | None = None
    order: tuple[int, ...] | None = None
    snapshot: bool = False
    half: int = 1
    broadcast: bool = False
    crowded: bool = False
    number: int | None = None
    types: Types | None = None
    columns: tuple[ColumnType, ...] | None = None
    ddl: str | None = None
    dialect: str | None = None
    warnings: list[str] | None = None


def complete(event: Event, defaults: tuple[str | None, str | None, str | None]) -> None:
    """Give `event` the source's database, schema and table if its message names none."""
    db, schema, table = defaults
    event.db = event.db or db
    event.schema = event.schema or schema
    if not event.table and event.kind != "control":
        event.table = table


def without_empty(event: Event) -> None:
    """Remove the images that have no column left: an empty image is none.

    Raises no_image if the event said nothing else.
    """
    if not event.before:
        event.before = event.before_image = None
    if not event.after:
        event.after = event.after_image = None
        if event.kind == "change" and event.op not in ("delete", "truncate"):
            lost = ", ".join(event.unavailable or ())
            raise DecodeError(
                Code.NO_IMAGE, f"expected a column that is known, got none: {lost} unavailable"
            )


class SilverColumn(NamedTuple):
    """One column of `silver.cdc`: name, Spark type, meaning."""

    name: str
    type: str
    text: str


_MAP = "map<string,string>"

SILVER: tuple[SilverColumn, ...] = (
    SilverColumn("kind", "string", "change, ddl, control, schema, fragment or reject"),
    SilverColumn("source", "string", "name of the declared source"),
    SilverColumn("topic", "string", "Kafka topic, or path of the file"),
    SilverColumn("partition", "int", "Kafka partition, or ordinal of the file"),
    SilverColumn("offset", "bigint", "Kafka offset, or record number in the file, from 0"),
    SilverColumn("row", "int", "index of the event inside its message; -1 for schema rows"),
    SilverColumn("format", "string", "wire format that decoded the message"),
    SilverColumn("op", "string", "what happened, in the one vocabulary"),
    SilverColumn("op_raw", "string", "the source's own word for it"),
    SilverColumn("db", "string", "source database, case kept"),
    SilverColumn("schema", "string", "source schema, null where the source has none"),
    SilverColumn("table", "string", "source table, case kept"),
    SilverColumn("key_columns", "array<string>", "names of the key columns; null = unknown"),
    SilverColumn("key", _MAP, "the key's values; of a delete, those of the deleted row"),
    SilverColumn("key_before", _MAP, "of an update, the key's values before it, where known"),
    SilverColumn("before", _MAP, "row before; null = no such image, absent column = not sent"),
    SilverColumn("after", _MAP, "row after; present null = SQL NULL; of a commit, its event_count"),
    SilverColumn("before_image", "string", "full, partial or key: how complete before is"),
    SilverColumn("after_image", "string", "full, partial or key: how complete after is"),
    SilverColumn("unavailable", "array<string>", "columns the producer could not supply"),
    SilverColumn("id", "string", "the message's own id, as sent"),
    SilverColumn("sequenceId", "string", "DataWorks sequence, as sent"),
    SilverColumn("storeDataSequence", "string", "OMS sequence, as sent"),
    SilverColumn("scn", "string", "log position of the source, as sent"),
    SilverColumn("pos", "array<bigint>", "the total order: eleven numbers, see ingest.position"),
    SilverColumn("epoch", "bigint", "pos[0]: the source's declared epoch"),
    SilverColumn("s1", "bigint", "pos[2]: leading number of the source's order key"),
    SilverColumn("event_time", "timestamp", "when it happened at the source, UTC"),
    SilverColumn("sent_time", "timestamp", "when the producer sent it, UTC"),
    SilverColumn("tx_id", "string", "transaction, as the source names it"),
    SilverColumn(
        "extra",
        _MAP,
        "what else the producer says of the change: tenant, logical names, tags, commit, …",
    ),
    SilverColumn("schema_id", "string", "fingerprint of the column types, see kind schema"),
    SilverColumn(
        "columns",
        "array<struct<name:string,source_type:string,type:string>>",
        "the types, on schema rows and on ddl rows that carry them",
    ),
    SilverColumn("ddl", "string", "statement text"),
    SilverColumn("dialect", "string", "its SQL dialect, where message or options tell; else null"),
    SilverColumn("warnings", "array<string>", "codes of every repair or doubt"),
    SilverColumn("error_code", "string", "of a reject: the code"),
    SilverColumn("error", "string", "of a reject: expected, got, where"),
    SilverColumn("value", "binary", "of a reject or fragment: the raw bytes"),
    SilverColumn(
        "value_hash",
        "bigint",
        "of a change, part of its identity: xxh64 of what happened (op, key, images, unavailable, "
        "and its coordinates where nothing else tells it apart); else of the message bytes",
    ),
    SilverColumn("key_hash", "bigint", "xxh64 of the key's values, numbers in one spelling"),
    SilverColumn(
        "arrived",
        "timestamp",
        "the record's timestamp, UTC; where arrival orders, never below an earlier offset's",
    ),
    SilverColumn("decoded_at", "timestamp", "when this row was made, UTC"),
    SilverColumn("batch", "bigint", "number of the append; gold's increments"),
)
"""`silver.cdc`, in order. `value_hash`, `key_hash`, `epoch` and `s1` exist so that Delta can skip
files and identities can be compared without unpacking maps and arrays."""

DECODED = tuple(column for column in SILVER if column.name != "batch")
"""The columns that decoding gives: all except the number of the append."""
