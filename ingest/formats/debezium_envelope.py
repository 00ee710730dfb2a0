"""Debezium's envelope as structs, and the source's log position as an order key.

Which numbers order a connector's events stands in the connector's documentation under "Data change
events"; positions are compared as numbers, never as text.
Source: https://debezium.io/documentation/reference/3.6/connectors/ (source blocks per connector).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest import values
from ingest.codes import Code
from ingest.errors import DecodeError

Number = int | str | None
Order = tuple[int, ...] | None

_LIMIT = 2**63
_LATEST_MS = values.LATEST // 1000
_SNAPSHOTS: set[bool | str | None] = {True, "true", "first", "last", "incremental"}
_SNAPSHOTS |= {"first_in_data_collection", "last_in_data_collection"}
_SUFFIX = re.compile(r"\d+$")
_FAMILIES = {
    **dict.fromkeys(("mysql", "mariadb", "ticdc", "tidb", "vitess"), "mysql"),
    **dict.fromkeys(("postgresql", "yugabytedb", "opengauss", "cockroachdb"), "postgres"),
    **dict.fromkeys(("oracle", "oracle xstream cdc"), "oracle"),
    "sqlserver": "sqlserver",
    "db2": "db2",
    "mongodb": "mongodb",
}


class Source(msgspec.Struct, gc=False):
    """`source`: where the event stood in the source's log. Fields of all connectors."""

    connector: str | None = None
    ts_ms: Number = None
    ts_us: Number = None
    ts_ns: Number = None
    snapshot: bool | str | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    collection: str | None = None
    database_name: str | None = None
    keyspace: str | None = None
    keyspace_name: str | None = None
    schema_name: str | None = None
    owner: str | None = None
    table_name: str | None = None
    sequence: str | list[int | str | None] | None = None
    gtid: str | None = None
    file: str | None = None
    pos: Number = None
    row: Number = None
    txId: Number = None
    lsn: Number = None
    scn: Number = None
    commit_scn: Number = None
    rs_id: str | None = None
    ssn: Number = None
    txSeq: Number = None
    lcr_position: str | None = None
    change_lsn: str | None = None
    commit_lsn: str | None = None
    event_serial_no: Number = None
    ord: Number = None
    commit_ts: Number = None


class Transaction(msgspec.Struct, gc=False):
    """`transaction`, with `provide.transaction.metadata`."""

    id: Number = None


class Inner(msgspec.Struct, gc=False):
    """The payload of a row change, or of a message of another kind (`op` is then None)."""

    op: str | None = None
    before: Raw = Raw()
    after: Raw = Raw()
    source: Source | None = None
    ts_ms: Number = None
    ts_us: Number = None
    transaction: Transaction | None = None
    ddl: str | None = None
    updateDescription: Raw = Raw()
    filter: Raw = Raw()


class Outer(Inner, gc=False):
    """A whole message: with schema it has a payload, without it is the payload itself."""

    schema: Raw = Raw()
    payload: Inner | UnsetType | None = UNSET


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
    """The type family of the connector, by its name, else by what only it sends."""
    if source.connector:
        found = _FAMILIES.get(source.connector) or _FAMILIES.get(source.connector.lower())
        if found is not None:
            return found
    if source.lsn is not None:
        return "postgres"
    if source.scn is not None:
        return "oracle"
    return "mongodb" if source.collection is not None else "mysql"


def names_of(source: Source) -> tuple[str | None, str | None, str | None]:
    """Database, schema and table, under whichever names the connector has for them: oracdc's
    `owner`, Vitess's and Cassandra's `keyspace`, CockroachDB's and ScyllaDB's own."""
    if source.table and source.db:
        return source.db, source.schema or None, source.table
    db = source.db or source.database_name or source.keyspace or source.keyspace_name
    schema = source.schema or source.owner or source.schema_name
    table = source.table or source.collection or source.table_name
    return db or None, schema or None, table or None


def is_snapshot(source: Source) -> bool:
    """Whether the event is a row of a snapshot, an incremental one included."""
    return source.snapshot in _SNAPSHOTS


def micros(source: Source | Inner) -> int | None:
    """The time in microseconds since the epoch; 0 (snapshots of old versions) is unknown.

    Raises bad_value outside years 1 to 9999.
    """
    count, ms = source.ts_us, source.ts_ms
    if count is None and ms.__class__ is int and 0 < ms < _LATEST_MS:
        return ms * 1000
    count = _int(count)
    if count is None:
        count = (_int(ms) or 0) * 1000
    if not values.EARLIEST <= count <= values.LATEST:
        raise DecodeError(
            Code.BAD_VALUE, f"expected a time within years 1..9999, got {str(count)[:40]} µs"
        )
    return count if count not in (0, -1, -1000) else None


def order_of(source: Source) -> Order:
    """s1… of a row (rulings.md, 12); None where the message carries no position."""
    find = _ORDERS.get(source.connector or "") or _ORDERS.get((source.connector or "").lower())
    if find is None:
        find = next((order for has, order in _TRACES if getattr(source, has) is not None), _binlog)
    found = find(source)
    if found is None:
        return None
    for number in found:
        if not 0 <= number < _LIMIT:
            return None
    return found


def _int(number: Number) -> int | None:
    if number is None or number.__class__ is int:
        return number
    text = str(number)
    return int(text) if text.isdecimal() and len(text) < 40 else None


def _binlog(source: Source) -> Order:
    """File number, position, row: `.999999` comes before `.1000000`."""
    pos, row, file = source.pos, source.row, source.file
    if pos.__class__ is not int or row.__class__ is not int:
        pos, row = _int(pos), _int(row) or 0
    number = _file_number(file) if file else None
    return None if number is None or pos is None else (number, pos, row)


@lru_cache(maxsize=4096)
def _file_number(file: str) -> int | None:
    match = _SUFFIX.search(file)
    return int(match[0]) if match is not None and len(match[0]) < 20 else None


def _lsn(source: Source) -> Order:
    """The commit's LSN, then the event's own: alone it is not monotonic across transactions."""
    sequence = source.sequence
    if isinstance(sequence, str):
        try:
            sequence = _SEQUENCE.decode(sequence)
        except msgspec.MsgspecError:
            sequence = None
    committed = last = None
    if sequence is not None and len(sequence) == 2:
        committed, last = _int(sequence[0]), _int(sequence[1])
    lsn = _int(source.lsn)
    lsn = last if lsn is None else lsn
    return None if lsn is None else (lsn if committed is None else committed, lsn)


_SEQUENCE = msgspec.json.Decoder(list[int | str | None])


def _scn(source: Source) -> Order:
    """Commit SCN, SCN, then the redo record; XStream's LCR position is one long hexadecimal."""
    if source.lcr_position:
        return _lcr(source.lcr_position)
    scn = _int(source.scn)
    if scn is None:
        return None
    commit = _int(source.commit_scn)
    if commit is None and source.commit_scn:
        return None
    inside = _int(source.ssn)
    inside = (_int(source.txSeq) or 0) if inside is None else inside
    parts = _hex(source.rs_id.strip().removeprefix("0x"), ".") if source.rs_id else None
    if parts is None or len(parts) != 3:
        return (scn if commit is None else commit), scn, 0, 0, inside
    return (scn if commit is None else commit), scn, parts[0], parts[1] << 16 | parts[2], inside


def _change_lsn(source: Source) -> Order:
    """Commit LSN and change LSN of ten bytes each as 32 + 48 bits, then the serial number."""
    commit = _hex(source.commit_lsn, ":")
    if commit is None or len(commit) != 3:
        return None
    change = _hex(source.change_lsn, ":")
    if change is None or len(change) != 3:
        change = [0, 0, 0]
    serial = _int(source.event_serial_no) or 0
    return (
        commit[0],
        commit[1] << 16 | commit[2],
        change[0],
        change[1] << 16 | change[2],
        serial,
    )


def _db2(source: Source) -> Order:
    """Commit LSN and change LSN of up to sixteen bytes each, cut in two."""
    commit = _hex((source.commit_lsn or "").replace(":", ""), " ")
    if commit is None:
        return None
    change = _hex((source.change_lsn or "").replace(":", ""), " ") or [0]
    return (*divmod(commit[0], 2**62), *divmod(change[0], 2**62))


def _ord(source: Source) -> Order:
    """The second of the oplog entry and its number in that second."""
    number, time = _int(source.ord), _int(source.ts_ms)
    return None if number is None or time is None else (time // 1000, number)


def _commit_ts(source: Source) -> Order:
    """TiCDC's Debezium protocol: the commit's timestamp."""
    number = _int(source.commit_ts)
    return None if number is None else (number,)


def _hex(text: str | None, separator: str) -> list[int] | None:
    try:
        return [int(part, 16) for part in (text or "").split(separator)]
    except ValueError:
        return None


def _lcr(text: str) -> Order:
    """A long hexadecimal compared from the left, as five numbers of fifteen digits."""
    if len(text) > 75:
        return None
    wide = text.ljust(75, "0")
    try:
        return tuple(int(wide[at : at + 15], 16) for at in range(0, 75, 15))
    except ValueError:
        return None


_ORDERS: dict[str, Callable[[Source], Order]] = {
    "mysql": _binlog,
    "mariadb": _binlog,
    "postgresql": _lsn,
    "oracle": _scn,
    "sqlserver": _change_lsn,
    "db2": _db2,
    "mongodb": _ord,
    "ticdc": _commit_ts,
}
_TRACES: tuple[tuple[str, Callable[[Source], Order]], ...] = (
    ("commit_ts", _commit_ts),
    ("lsn", _lsn),
    ("scn", _scn),
    ("event_serial_no", _change_lsn),
    ("ord", _ord),
)
