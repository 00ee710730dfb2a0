"""Debezium's envelope as structs: what it says of a change, its table and its times.

Messages that leave out which table or which change they are about are refused here too.

To add a connector: what its source block has beside the others' in `Source`, the family of its
column types in `_FAMILIES`, and in `order.py` what its position is (`_ORDERS`), whether several
changes may stand at one (`_CROWDED`), and what tells it where no connector is named (`_TRACES`).
For messages without a schema `declared.py` has the digits of its times (`_DEFAULT_DIGITS`).

Source: https://debezium.io/documentation/reference/3.6/connectors/ (source blocks per connector).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import canonical
from ingest.values.jsontext import members
from ingest.wire.clock import ZONES_OF_INSTANTS, epoch_micros
from ingest.wire.contract import (
    EQUAL_ROWS_OF_A_SNAPSHOT,
    SPACES_OF_JSON,
    Loss,
    TableName,
    equal_changes_of_a_row,
    repeats_without_key,
)
from ingest.wire.scalars import Scalar, text_of

_WHOLE = frozenset((int,))
_LATEST_MS = canonical.LATEST // 1000
_SNAPSHOTS: set[bool | str | None] = {True, "true", "first", "last", "incremental"}
_SNAPSHOTS |= {"first_in_data_collection", "last_in_data_collection"}
_INSERTING = ("mysql", "mariadb")
_FAMILIES = {
    **dict.fromkeys(("mysql", "mariadb", "ticdc", "tidb", "vitess"), "mysql"),
    **dict.fromkeys(("postgresql", "yugabytedb", "opengauss", "cockroachdb"), "postgres"),
    **dict.fromkeys(("oracle", "oracle xstream cdc", "yashandb"), "oracle"),
    "sqlserver": "sqlserver",
    "db2": "db2",
    "informix": "informix",
    "mongodb": "mongodb",
}


CASSANDRA = (
    "expected columns with their values, got those of Debezium's Cassandra connector, which wraps "
    "each in value, deletion_ts and set and sends no position by which changes could be ordered; "
    "its messages are not decoded"
)

_YUGABYTE = (
    "expected columns with their values, got those of YugabyteDB's connectors, which wrap each in "
    "value and set and write null for one that did not change: their Avro is not decoded; let the "
    "connector write JSON (format: debezium), or its transformation YBExtractNewRecordState "
    "flatten the rows"
)
_SCYLLA = (
    "expected columns with their values, got those of ScyllaDB's connector, which wraps each in "
    "value and writes null for one that the statement did not set: what the row holds is not told; "
    "its messages are not decoded"
)
_AVRO_JSON = (
    "expected a Debezium envelope as Connect's JsonConverter writes it, got Avro's own JSON, which "
    "names the type of each value and which tools like kafka-avro-console-consumer print; read the "
    "topic itself, with format: debezium_avro"
)
_VALUE_AND_SET, _CELL = {"value", "set"}, {"value", "deletion_ts", "set"}
_NAMED_RECORD = re.compile(rb'\s*\{\s*"[^"\\]*\.Value"\s*:\s*\{')
_NAMED_TYPE = re.compile(
    rb'"(?:snapshot|sequence|ts_ms|ts_us|ts_ns|ts_sec|table|schema|db|thread|query|gtid|txId|lsn|xmin'
    rb'|scn|commit_scn|change_lsn|commit_lsn|event_serial_no|transaction)"\s*:\s*'
    rb'\{\s*"(?:string|long|int|boolean|event\.block)"\s*:'
)


def refuse_named_record(columns: dict[str, Any] | None, raw: bytes) -> None:
    """Raises unsupported if an image is a record of Avro's JSON: `{"shop.d.t.Value": {…}}`."""
    if columns is not None and len(columns) == 1 and _NAMED_RECORD.match(raw):
        raise DecodeError(Code.UNSUPPORTED, _AVRO_JSON)


def refuse_wrapped(
    source: Source, *, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    """Raises unsupported if an image has nothing but Cassandra's cells, or is ScyllaDB's, with
    `{"value": 1}` beside its key or null, which is what the statement left out."""
    for image in (before, after):
        values = [value for value in (image or {}).values() if value is not None]
        structs = [value.keys() for value in values if value.__class__ is dict]
        if structs:
            refuse_structs(source, structs, columns=len(values))
    if source.connector == "scylla" and None in (after or {}).values():
        raise DecodeError(Code.UNSUPPORTED, _SCYLLA)


def refuse_structs(source: Source, structs: Sequence[Set[str]], *, columns: int) -> None:
    """Raises unsupported as `refuse_wrapped`, and of YugabyteDB's cells. `structs`: the names
    within the structs of a row that has so many `columns`.

    By logical replication YugabyteDB's connector calls itself postgresql (plugin yboutput).
    """
    if len(structs) == columns:
        for wrapped, why in ((_VALUE_AND_SET, _YUGABYTE), (_CELL, CASSANDRA)):
            if all(names == wrapped for names in structs):
                raise DecodeError(Code.UNSUPPORTED, why)
    if source.connector == "scylla" and {"value"} in structs:
        raise DecodeError(Code.UNSUPPORTED, _SCYLLA)


def refuse_named_types(value: bytes) -> None:
    """Raises unsupported if an envelope that does not fit is one of Avro's JSON."""
    if _NAMED_TYPE.search(value):
        raise DecodeError(Code.UNSUPPORTED, _AVRO_JSON)


class Source(msgspec.Struct, gc=False):
    """`source`: where the event stood in the source's log; the fields of all connectors.

    Before Debezium 0.10, times were called ts_sec (MySQL), ts_usec (PostgreSQL) and sec (MongoDB),
    and a collection with its database was called ns.
    """

    connector: str | None = None
    name: Any = None
    ts_ms: Scalar = None
    ts_us: Scalar = None
    ts_ns: Scalar = None
    ts_sec: Any = None
    ts_usec: Any = None
    sec: Any = None
    ns: Any = None
    snapshot: bool | str | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    collection: str | None = None
    database: str | None = None
    database_name: str | None = None
    pdb_name: str | None = None
    keyspace: str | None = None
    keyspace_name: str | None = None
    schema_name: str | None = None
    owner: str | None = None
    table_name: str | None = None
    cluster: Any = None
    sequence: Any = None
    gtid: str | None = None
    file: str | None = None
    pos: Scalar = None
    row: Scalar = None
    txId: Scalar = None
    lsn: Scalar = None
    scn: Scalar = None
    commit_scn: Scalar = None
    rs_id: str | None = None
    ssn: Scalar = None
    txSeq: Scalar = None
    lcr_position: str | None = None
    change_lsn: str | None = None
    commit_lsn: str | None = None
    event_serial_no: Scalar = None
    ord: Scalar = None
    commit_ts: Scalar = None
    ts_hlc: str | None = None
    origin: Any = None
    mod_number: Scalar = None
    value_capture_type: str | None = None
    pkNames: Any = None
    primary_keys: Any = None


class Transaction(msgspec.Struct, gc=False):
    """`transaction`, with `provide.transaction.metadata`."""

    id: Scalar = None


class Inner(msgspec.Struct, gc=False):
    """The payload of a row change, or of a message of another kind (`op` is None then).

    No change is refused because of its time of sending, whatever stands there.
    """

    op: str | None = None
    before: Raw = Raw()
    after: Raw = Raw()
    source: Source | None = None
    ts_ms: Any = None
    ts_us: Any = None
    ts_ns: Any = None
    transaction: Transaction | None = None
    ddl: str | None = None
    updateDescription: Raw = Raw()
    filter: Raw = Raw()
    patch: Raw = Raw()
    chunked: Raw = Raw()


class Outer(Inner, gc=False):
    """A whole message: with a schema it has a payload, without one it is the payload itself."""

    schema: Raw = Raw()
    payload: Inner | UnsetType | None = UNSET


_ATTRIBUTE_PREFIX = "iodebezium"
_FIELD_OF_ATTRIBUTE = {name.replace("_", ""): name for name in Source.__struct_fields__}
_IMAGES = ("before", "after", "updateDescription", "filter", "patch")


def of_cloud_event(top: Mapping[str, Raw]) -> bytes | None:
    """The envelope that Debezium's CloudEventsConverter writes as attributes, as JSON; the images
    are in `data`, with or without Connect's schema. None if it names no operation, or has Avro.

    Source: https://debezium.io/documentation/reference/3.6/integrations/cloudevents.html
    """
    attributes = {
        name.removeprefix(_ATTRIBUTE_PREFIX): raw
        for name, raw in top.items()
        if name.startswith(_ATTRIBUTE_PREFIX)
    }
    data = bytes(top.get("data", b""))
    if "op" not in attributes or data[:1] != b"{":
        return None
    images = members(data)
    schema = images.get("schema") if images.keys() == {"schema", "payload"} else None
    if schema is not None:
        images = members(bytes(images["payload"]))
    payload: dict[str, Any] = {name: images[name] for name in _IMAGES if name in images}
    payload["op"] = attributes["op"]
    payload["source"] = {
        _FIELD_OF_ATTRIBUTE[name]: raw
        for name, raw in attributes.items()
        if name in _FIELD_OF_ATTRIBUTE
    }
    if "txid" in attributes:
        payload["transaction"] = {"id": attributes["txid"]}
    envelope = payload if schema is None else {"schema": schema, "payload": payload}
    return msgspec.json.encode(envelope)


OPS = {
    "c": "insert",
    "i": "insert",  # CloudCanal's example
    "u": "update",
    "d": "delete",
    "r": "snapshot",
    "t": "truncate",
    "m": "other",
}


def family_of_connector(source: Source) -> str:
    """The type family of the connector: by its name, else by fields that only this connector
    sends."""
    if source.connector:
        found = _FAMILIES.get(source.connector) or _FAMILIES.get(source.connector.lower())
        if found is not None:
            return found
    if source.lsn is not None or of_cockroachdb(source) or of_dsql(source):
        return "postgres"
    if source.scn is not None:
        return "oracle"
    return "mongodb" if source.collection is not None else "mysql"


def of_cockroachdb(source: Source) -> bool:
    """Whether the change was sent by a changefeed of CockroachDB or by Debezium's connector for
    it."""
    return "cockroachdb" in (source.connector, source.origin)


def of_dsql(source: Source) -> bool:
    """Whether a stream of Aurora DSQL sent the change: it names its cluster, and no connector.

    Source: https://docs.aws.amazon.com/aurora-dsql/latest/userguide/cdc-record-format.html
    """
    return source.connector is None and source.cluster.__class__ is str


def refuse_chunked(inner: Inner) -> None:
    """Raises unsupported for a change of Aurora DSQL's of which an image is in other messages."""
    if inner.chunked and bytes(inner.chunked) != b"null":
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected the row in its message, got one of Aurora DSQL's that is split, since it has "
            "more than 9 MiB: its fragments are not put together",
        )


def wraps_payload(members: Collection[str]) -> bool:
    """Whether an object with these names is a payload alone, or with the number of its schema, as
    Apicurio's ExtJsonConverter writes it."""
    return "payload" in members and {*members} <= {"payload", "schemaId"}


def with_collection(source: Source) -> Source:
    """The source block, with its collection named as since 0.10."""
    if source.ns.__class__ is str and source.collection is None:
        source.db, _, source.collection = source.ns.partition(".")
    return source


def names_of(source: Source) -> TableName:
    """Database, schema and table, by whichever names the connector uses: oracdc's `pdb_name` and
    `owner`, Vitess's and Cassandra's `keyspace`, SeaTunnel's `database`, and those of CockroachDB
    and ScyllaDB."""
    if source.table and source.db:
        return source.db, source.schema or None, source.table
    db = source.db or source.database or source.pdb_name or source.database_name
    db = db or source.keyspace or source.keyspace_name
    schema = source.schema or source.owner or source.schema_name
    table = source.table or source.collection or source.table_name
    return db or None, schema or None, table or None


def named_by_topic(names: TableName, source: Source, topic: str) -> TableName:
    """The names of a source block without a table, completed from the topic, whose name consists of
    the connector's and the table's: IBM i's blocks name no table, nor did Oracle's before 0.10."""
    prefix = f"{source.name}."
    if names[2] is not None or source.name.__class__ is not str or not topic.startswith(prefix):
        return names
    *containers, table = topic.removeprefix(prefix).split(".")
    if not table or len(containers) > 2:
        return names
    db, schema, _ = names
    if containers and db in (None, containers[0]):
        db = containers.pop(0)
    return db, schema or (containers.pop() if containers else None), table


def key_of(source: Source) -> tuple[str, ...] | None:
    """The key's columns, which InLong and CockroachDB's changefeeds name in the source block."""
    names = source.primary_keys if source.pkNames is None else source.pkNames
    if names.__class__ is not list or any(name.__class__ is not str for name in names):
        return None
    return tuple(names) or None


def is_snapshot(source: Source) -> bool:
    """Whether the source block says that the message is of a snapshot, also of an incremental
    one."""
    return source.snapshot in _SNAPSHOTS


def is_snapshot_row(op: str, source: Source) -> bool:
    """Whether a change is a row of a snapshot: a read, or an insert of the MySQL connector, which
    sent snapshots as inserts up to Debezium 1.5.

    No snapshot updates or deletes: SingleStore's connector says snapshot of everything that it
    streams until it is started again.
    """
    if op != "insert":
        return op == "snapshot"
    return is_snapshot(source) and (source.connector or "mysql").lower() in _INSERTING


def micros(source: Source | Inner, warnings: list[str]) -> int | None:
    """The time of a change in microseconds since the epoch; 0 (snapshots of old versions) means
    unknown. If it cannot be read, the warning is `event_time_unread`.

    Raises bad_value outside years 1 to 9999.
    """
    count, ms = source.ts_us, source.ts_ms
    if count is None and ms.__class__ is int and 0 < ms < _LATEST_MS:
        return ms * 1000
    count = whole(count)
    if count is None and ms is None and isinstance(source, Source):
        count = _micros_before_0_10(source)
    if count is None:
        ns = whole(source.ts_ns) if ms is None else None
        count = (whole(ms) or 0) * 1000 if ns is None else ns // 1000
    if not canonical.EARLIEST <= count <= canonical.LATEST:
        raise DecodeError(
            Code.BAD_VALUE, f"expected a time within years 1..9999, got {str(count)[:40]} µs"
        )
    if count not in (0, -1, -1000):
        return count
    if _is_unread(source):
        warnings.append(Code.EVENT_TIME_UNREAD.value)
    return None


def _is_unread(block: Source | Inner) -> bool:
    """Whether something stands where a time should, and is no whole number."""
    if whole(block.ts_us) is not None or whole(block.ts_ms) is not None:
        return False
    return text_of(block.ts_us or block.ts_ms) is not None


def _micros_before_0_10(source: Source) -> int | None:
    seconds = whole(source.sec if source.ts_sec is None else source.ts_sec)
    return whole(source.ts_usec) if seconds is None else seconds * 1_000_000


def plain_times(blocks: Sequence[Source | Inner]) -> list[int] | None:
    """`micros` of many, and `sent_micros`, if all are whole numbers as connectors send them; None
    if each must be read by itself."""
    us: list[Any] = [block.ts_us for block in blocks]
    ms: list[Any] = [block.ts_ms for block in blocks]
    if _WHOLE.issuperset(map(type, us)):
        return us if us and 0 < min(us) and max(us) <= canonical.LATEST else None
    if not _WHOLE.issuperset(map(type, ms)) or us.count(None) < len(us):
        return None
    return [time * 1000 for time in ms] if 0 < min(ms) and max(ms) < _LATEST_MS else None


def sent_micros(inner: Inner | Source, warnings: list[str]) -> int | None:
    """The time at which a message was sent; no change is refused because of it.

    If the time is beyond the year 9999, its unit follows from its magnitude (`ts_unit_inferred`):
    samples in Debezium's own documentation have nanoseconds in `ts_ms`.
    """
    ms = inner.ts_ms
    if inner.ts_us is None and ms.__class__ is int and 0 < ms < _LATEST_MS:
        return ms * 1000
    us, ms = whole(inner.ts_us), whole(ms)
    if _is_unread(inner):
        warnings.append(Code.SENT_TIME_UNREAD.value)
        return None
    try:
        return micros(inner, warnings)
    except DecodeError:
        pass
    try:
        found = epoch_micros(us or ms or 0, warnings)
    except DecodeError:
        warnings.append(Code.SENT_TIME_UNREAD.value)
        return None
    warnings.append(Code.TS_UNIT_INFERRED.value)
    return found


def whole(number: Scalar) -> int | None:
    """A number, which may come as text; None if it is none."""
    if number is None or number.__class__ is int:
        return number
    text = str(number)
    return int(text) if text.isdecimal() and len(text) < 40 else None


LOSSES = (
    repeats_without_key(
        "the rows of one COPY of PostgreSQL have one LSN, those of a transaction of TiCDC, "
        "CockroachDB and Aurora DSQL one timestamp; rows of Oracle without txSeq, of MySQL without "
        "row (CloudCanal's), and flattened ones without all fields of the position may have one"
    ),
    EQUAL_ROWS_OF_A_SNAPSHOT,
    equal_changes_of_a_row(
        "the changes of a transaction of MongoDB, and of Oracle without rs_id and txSeq, have one "
        "place",
        by_default=True,
    ),
    Loss(
        "the order of compressed transactions",
        "with MySQL's binlog_transaction_compression the rows of a transaction have one position, "
        "and each statement counts them anew: turn it off, or set order: arrival",
    ),
    Loss(
        "zero dates",
        "MySQL's 0000-00-00 comes as null, or as 1970-01-01 where a column is NOT NULL",
    ),
    Loss("year zero", "MySQL's YEAR 0000 comes as 1900"),
    Loss(
        "days that the Gregorian calendar left out",
        "in a snapshot of MySQL, 5 to 14 October 1582 come as ten days later; of PostgreSQL, dates",
    ),
    Loss(
        "digits of MySQL's FLOAT",
        "in a snapshot of MySQL, a FLOAT has the six digits that the server shows",
    ),
    Loss(
        "NaN and infinite decimals",
        "PostgreSQL's numeric NaN and Infinity come as null with decimal.handling.mode=precise",
    ),
    Loss(
        "trailing zeros of decimals",
        "PostgreSQL's numeric without precision comes without the zeros at its end",
    ),
    Loss(
        "NULL beside a default",
        "comes as the column's default; set the converter's replace.null.with.default=false, or "
        "Avro's ignore.default.for.nullables=true where the converter knows it; TiCDC's Debezium "
        "protocols have no such setting",
    ),
    Loss(
        "unchanged TOAST values",
        "those of numeric, bytea and some arrays come as null, not as the placeholder; REPLICA "
        "IDENTITY FULL sends them",
    ),
    Loss(
        "types of MongoDB's values",
        'a text "7" and a number 7 have one text: documents whose _id differs in its type alone '
        "are one row",
    ),
    Loss(
        "fields that MongoDB's replacement of a document dropped",
        "the message has the new document alone; pre-images (capture.mode …_with_pre_image) name "
        "them",
        mended=True,
    ),
    Loss(
        "columns that Spanner's updates leave",
        "come as null: of NEW_VALUES, one set to NULL keeps its old value; flattened rows do not "
        "tell the two apart at all. The value capture type NEW_ROW sends whole rows",
    ),
    Loss(
        "keys of REPLICA IDENTITY USING INDEX",
        "the message key is the index's columns, which need not be the primary key: keys: says it",
    ),
    Loss(
        "PostgreSQL's timetz, hstore and money",
        "their text is Debezium's: times in UTC, a hstore as JSON, money as a number; that of "
        "wal2json is PostgreSQL's own",
    ),
    Loss(
        "PostgreSQL's intervals",
        "come as microseconds, with months of 30.4 days; in ISO 8601, and whole, with "
        "interval.handling.mode=string. wal2json's are PostgreSQL's own text. Oracle's come so, "
        "too, and GoldenGate's are Oracle's own text",
    ),
    Loss(
        "one text of arrays",
        "they are JSON; wal2json's are PostgreSQL's own text",
    ),
    Loss(
        "CockroachDB's timestamps",
        "a changefeed's schema calls TIMESTAMP and TIMESTAMPTZ alike: they are strings, unless "
        "columns: says which is which",
        mended=True,
    ),
    Loss(
        "generated columns",
        "PostgreSQL's pgoutput leaves them out of changes, unless the publication says "
        "publish_generated_columns = stored (18); TiCDC those that are virtual: a value of the "
        "snapshot stays as it was",
    ),
    Loss(
        "columns that Oracle does not log",
        "of a table without SUPPLEMENTAL LOG DATA (ALL) COLUMNS those that an update left alone "
        "come as null: they become NULL",
    ),
    Loss(
        "Oracle's CLOB, NCLOB and BLOB",
        "without lob.enabled=true a snapshot has null for them, or an empty value where they are "
        "NOT NULL, and an update of such a column alone is not sent",
    ),
    Loss(
        "SQL Server's large values before a change",
        "its change tables have null for text, ntext and image, and for varchar(max) and its like "
        "where an update left them: they are left out of the row before, in updates also where no "
        "more than string or bytes is known of the type; column.propagate.source.type tells it",
    ),
    Loss(
        "SQL Server's computed columns",
        "its change tables always have null for them: after a snapshot, a change makes them NULL",
    ),
    Loss("arrays of several dimensions", "those within PostgreSQL's array come as null"),
    Loss(
        "leading zeros of PostgreSQL's bits",
        "bit varying(n) of up to 64 bits comes as a number, where wal2json has its zeros and ones; "
        "of more than 64, bit(n) and bit varying(n) look alike; without schemas, columns declared "
        "as bit(n) have them",
    ),
    Loss(
        "PostgreSQL's schema changes",
        "its log has none: values of a new column come with the next change of a row, and those of "
        "a dropped or renamed one stay; UPDATE t SET id = id sends all rows again",
    ),
    Loss(
        "one text of geometries",
        "it is a struct of wkb and srid, as JSON; Canal's is the SRID and WKB in base64, "
        "OceanBase's EWKB",
    ),
    ZONES_OF_INSTANTS,
    SPACES_OF_JSON,
    Loss(
        "deletes before a snapshot that is taken again",
        "one in whose middle a table changes fails and is begun again: rows that it had sent, and "
        "that were deleted in between, stay",
    ),
    Loss(
        "which row a changed key was of",
        "comes in the headers __debezium.oldkey and __debezium.newkey of a delete and a create; "
        "where something drops the headers, rows that exchange their keys in one statement are "
        "deleted by each other",
    ),
    Loss("truncates", "connectors skip them by default; set skipped.operations=none"),
    Loss(
        "large unsigned integers",
        "with bigint.unsigned.handling.mode=long a BIGINT UNSIGNED from 2^63 on comes negative",
        mended=True,
    ),
)
