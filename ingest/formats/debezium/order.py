"""The source's log position in a Debezium message as an order key.

Each connector's documentation says under "Data change events" which numbers order its events;
positions are compared as numbers, never as text.

Source: https://debezium.io/documentation/reference/3.6/connectors/ (source blocks per connector).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from ingest.formats.debezium.envelope import Source, is_snapshot, of_dsql, whole
from ingest.formats.ticdc.tso import place_of

Order = tuple[int, ...] | None

_LIMIT = 2**63
_SUFFIX = re.compile(r"(?<!\d)\d++$")
"""The number at the end of a binlog file's name."""


def order_of(source: Source, op: str = "ddl") -> Order:
    """s1… of a change (semantics.md, 12); None if the message carries no position."""
    find = _ORDERS.get(source.connector or "") or _ORDERS.get((source.connector or "").lower())
    if find is None:
        find = next((order for has, order in _TRACES if getattr(source, has) is not None), _binlog)
    found = find(source)
    if found is None:
        return None
    for number in found:
        if not 0 <= number < _LIMIT:
            return None
    return found if source.commit_ts is None else place_of(found[0], op)


def crowded(source: Source) -> bool:
    """Whether several rows of one transaction may stand at one place: for PostgreSQL the rows of
    one COPY, which is one log entry; for TiCDC, CockroachDB and Aurora DSQL all rows; for Oracle
    rows that are not counted. For the others so are rows without the last part of their place:
    CloudCanal sends no row, and flattened messages have what the transformation was told to add."""
    if source.connector in _APART:
        return source.row is None
    if source.connector == "oracle" or source.scn is not None:
        # A row of a snapshot may show the last number that was streamed.
        return not source.lcr_position and (source.txSeq is None or is_snapshot(source))
    if source.commit_ts is not None or source.lsn is not None or source.ts_hlc is not None:
        return True
    connector = (source.connector or "").lower()
    if connector in _CROWDED or of_dsql(source):
        return True
    last = _LAST.get(connector) or ("row" if source.file else None)
    return last is not None and getattr(source, last) is None


def orders_of(sources: Sequence[Source], ops: Sequence[str]) -> list[Order]:
    """`order_of` of many rows."""
    connectors = {source.connector for source in sources}
    find = _ORDERS.get(connectors.pop() or "") if len(connectors) == 1 else None
    if find is None or sources[0].commit_ts is not None:
        return list(map(order_of, sources, ops))
    return [
        found if found is not None and min(found) >= 0 and max(found) < _LIMIT else None
        for found in map(find, sources)
    ]


def _binlog(source: Source) -> Order:
    """File number, position, row: `.999999` comes before `.1000000`."""
    pos, row, file = source.pos, source.row, source.file
    if pos.__class__ is not int or row.__class__ is not int:
        pos, row = whole(pos), whole(row) or 0
    number = _file_number(file) if file else None
    return None if number is None or pos is None else (number, pos, row)


@lru_cache(maxsize=4096)
def _file_number(file: str) -> int | None:
    match = _SUFFIX.search(file)
    return int(match[0]) if match is not None and len(match[0]) < 20 else None


def _lsn(source: Source) -> Order:
    """The commit's LSN, then the event's own, which alone does not always grow from one transaction
    to the next."""
    sequence = source.sequence
    if isinstance(sequence, str):
        try:
            sequence = _SEQUENCE.decode(sequence)
        except msgspec.MsgspecError:
            sequence = None
    committed = last = None
    if isinstance(sequence, list) and len(sequence) == 2:
        committed, last = whole(sequence[0]), whole(sequence[1])
    lsn = whole(source.lsn)
    lsn = last if lsn is None else lsn
    return None if lsn is None else (lsn if committed is None else committed, lsn)


_SEQUENCE = msgspec.json.Decoder(list[int | str | None])


def _scn(source: Source) -> Order:
    """Commit SCN, SCN, the redo record, then the row's number in its transaction (ssn in versions
    that do not count rows); XStream's LCR position is one long hexadecimal number.

    A commit below the change is not that of its transaction. Early versions name the commit before
    it, of the same node, in all events but a transaction's last; in a cluster a node at rest may
    have made that long before the changes of others.
    """
    if source.lcr_position:
        return _lcr(source.lcr_position)
    scn = whole(source.scn)
    if scn is None:
        return None
    commit = whole(source.commit_scn)
    if commit is None and source.commit_scn:
        return None
    first = scn if commit is None else max(commit, scn)
    # Rows that one statement deletes together have the same redo record and ssn.
    inside = whole(source.txSeq)
    inside = (whole(source.ssn) or 0) if inside is None else inside
    parts = _hex(source.rs_id.strip().removeprefix("0x"), ".") if source.rs_id else None
    if parts is None or len(parts) != 3:
        return first, scn, 0, 0, inside
    return first, scn, parts[0], parts[1] << 16 | parts[2], inside


def _change_lsn(source: Source) -> Order:
    """Commit LSN and change LSN of ten bytes each as 32 + 48 bits, then the serial number."""
    commit = _hex(source.commit_lsn, ":")
    if commit is None or len(commit) != 3:
        return None
    change = _hex(source.change_lsn, ":")
    if change is None or len(change) != 3:
        change = [0, 0, 0]
    serial = whole(source.event_serial_no) or 0
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


def _informix(source: Source) -> Order:
    """Commit LSN, then change LSN, one number each."""
    commit = whole(source.commit_lsn)
    return None if commit is None else (commit, whole(source.change_lsn) or 0)


def _hlc(source: Source) -> Order:
    """CockroachDB's hybrid logical clock: nanoseconds, and a counter within that nanosecond.

    Source: https://www.cockroachlabs.com/docs/stable/changefeed-messages (envelope=enriched).
    """
    wall, _, logical = (source.ts_hlc or "").partition(".")
    first, second = whole(wall), whole(logical or "0")
    return None if first is None or second is None else (first, second)


def _spanner(source: Source) -> Order:
    """Commit timestamp in microseconds (in milliseconds from old versions), the record in its
    transaction, the change in its record."""
    committed, millis, sequence = whole(source.ts_us), whole(source.ts_ms), source.sequence
    record = whole(sequence) if isinstance(sequence, str) else None
    if committed is None and millis is not None:
        committed = millis * 1000
    if committed is None or record is None:
        return None
    return committed, record, whole(source.mod_number) or 0


def _ord(source: Source) -> Order:
    """The second of the oplog entry and its number in that second."""
    number, time, second = whole(source.ord), whole(source.ts_ms), whole(source.sec)
    if time is not None:
        second = time // 1000
    return None if number is None or second is None else (second, number)


def _commit_ts(source: Source) -> Order:
    """TiCDC's Debezium protocol: the commit's timestamp."""
    number = whole(source.commit_ts)
    return None if number is None else (number,)


def _commit_nanos(source: Source) -> Order:
    """Aurora DSQL's commit timestamp, a total order of its transactions.

    Source: https://docs.aws.amazon.com/aurora-dsql/latest/userguide/cdc-streams.html (Ordering)
    """
    number = whole(source.ts_ns) if of_dsql(source) else None
    return None if number is None else (number,)


def _hex(text: str | None, separator: str) -> list[int] | None:
    try:
        parts = (text or "").split(separator)
        return [int(part, 16) for part in parts] if max(map(len, parts)) <= 40 else None
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
    "informix": _informix,
    "cockroachdb": _hlc,
    "spanner": _spanner,
}
_CROWDED = {"postgresql", "ticdc"}
_APART = {"mysql", "mariadb"}
_LAST = {
    "sqlserver": "event_serial_no",
    "db2": "change_lsn",
    "informix": "change_lsn",
    "spanner": "mod_number",
}
"""What tells rows of one transaction apart."""
_TRACES: tuple[tuple[str, Callable[[Source], Order]], ...] = (
    ("commit_ts", _commit_ts),
    ("lsn", _lsn),
    ("scn", _scn),
    ("event_serial_no", _change_lsn),
    ("ord", _ord),
    ("ts_hlc", _hlc),
    ("cluster", _commit_nanos),
)
