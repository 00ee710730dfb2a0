"""Chunks of large records in silver, put together across messages.

OceanBase calls them shards, and so do the names here. The shards of a record form a run: same
partition, table and transaction, one index after the other (semantics.md, 20). Rows are walked in
the order of their partition. A run ends when it is complete; when its last index came although
another is missing; when the next run of its table and transaction begins; when its transaction's
commit comes; or when it has waited too long, either by the source's clock (a later event of its
partition is that much younger) or by this machine's. A complete run gives the rows of its record;
any other run gives one reject that holds all its shards.

Repeated deliveries must not break a run. A shard is skipped if the open run, or an earlier complete
one, has the same bytes, and if it comes after a broken run that had it. The rest of a broken run is
dropped if earlier deliveries hold all of it (`seen`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa
import xxhash

from ingest.decode.silver_rows import record_batch
from ingest.decode.source import DecodeSpec, SilverRow, SourceDecoder
from ingest.errors import DecodeError
from ingest.formats.oceanbase.chunks import begins, bundled, complete, follows
from ingest.formats.oceanbase.encodings import records
from ingest.formats.oceanbase.record import Record
from ingest.sql.quoting import typed_columns
from ingest.values.arrow_types import arrow_schema
from ingest.wire.contract import Message

FORMAT = "ob_avro"
SECONDS = "shard_seconds"
COLUMNS = tuple(
    """
    kind topic partition offset epoch arrived db schema table tx_id event_time decoded_at value
    batch
    """.split()
)
"""Columns of silver that a walk needs, with `settled`, `seen` and `newest` beside them."""


_SPAN = (("first", "bigint"), ("last", "bigint"), ("open", "boolean"))
SPAN = typed_columns(_SPAN)
_SPAN_SCHEMA = arrow_schema(_SPAN)


class Part(NamedTuple):
    """A row of the walk: a shard, or the commit of a transaction.

    `settled`: silver has what the run of this shard became; `seen`: an earlier row of silver has
    the same bytes; `newest`: the newest event time of its partition. Times are in microseconds.
    """

    kind: str
    topic: str
    partition: int
    offset: int
    epoch: int
    arrived: int | None
    db: str | None
    schema: str | None
    table: str | None
    tx_id: str | None
    event_time: int | None
    decoded_at: int
    value: bytes | None
    batch: int
    settled: bool
    seen: bool
    newest: int | None


class Run:
    """The shards of one record, in order, as far as they have come."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.records: list[Record] = []
        self.broken = False

    def add(self, part: Part, record: Record) -> None:
        """Take the next shard; if it does not follow the last one, the run is broken."""
        if self.records:
            self.broken |= not follows(record, self.records[-1])
        else:
            self.broken = not begins(record)
        self.parts.append(part)
        self.records.append(record)

    @property
    def ended(self) -> bool:
        """Whether no shard of the record can come any more."""
        first, last = self.records[0].shard, self.records[-1]
        return last.shard >= last.shards - 1 + (first == 1 and not self.broken)

    def waited(self, now: int, most: int) -> bool:
        """Whether the run has waited longer than `most` microseconds."""
        last = self.parts[-1]
        if now - last.decoded_at > most:
            return True
        times = last.event_time, last.newest
        return times[0] is not None and times[1] is not None and times[1] - times[0] > most

    def holds(self, part: Part) -> bool:
        """Whether the run has a shard of these bytes."""
        return any(part.value == other.value for other in self.parts)

    def prints(self) -> set[bytes]:
        """Fingerprints of the shards' bytes, without the first shard of a broken run, with which it
        may begin anew."""
        return {_print(part) for part in self.parts[not self.whole :]}

    @property
    def whole(self) -> bool:
        return not self.broken and complete(self.records)


class State(StrEnum):
    """What is to be done with a run.

    `ended`: make its rows. `held`: nothing, since silver has them, or has the bytes of an earlier
    delivery. `open`: wait.
    """

    ENDED = "ended"
    HELD = "held"
    OPEN = "open"


def walk(parts: Iterable[Part], *, now: int, most: int) -> Iterator[tuple[State, Run]]:
    """The runs of `parts`, which stand in the order of epoch, topic, partition, offset."""
    open_: dict[tuple[object, ...], Run] = {}
    whole: dict[tuple[object, ...], set[bytes]] = defaultdict(set)
    broken: dict[tuple[object, ...], set[bytes]] = defaultdict(set)
    place: tuple[int, str, int] | None = None
    for part in parts:
        if place != (part.epoch, part.topic, part.partition):
            yield from _left(open_, now, most)
            open_ = {}
            whole.clear()
            broken.clear()
            place = part.epoch, part.topic, part.partition
        if part.kind != "fragment":
            ends = [key for key in open_ if key[-1] == part.tx_id and part.tx_id is not None]
            for key in ends:
                yield _ended(open_.pop(key))
            continue
        record = _record(part)
        key = part.epoch, part.db, part.schema, part.table, part.tx_id
        run = open_.get(key)
        print_ = _print(part)
        if print_ in whole[key] or (run is None and print_ in broken[key]):
            continue
        if run is not None and run.holds(part):
            continue
        if run is not None and begins(record) and not follows(record, run.records[-1]):
            yield _ended(run)
            run = None
        if run is None:
            run = open_[key] = Run()
        run.add(part, record)
        if part.settled or run.whole or run.ended:
            del open_[key]
            (whole if run.whole else broken)[key].update(run.prints())
            yield (State.HELD, run) if part.settled else _ended(run)
    yield from _left(open_, now, most)


def _print(part: Part) -> bytes:
    return xxhash.xxh128_digest(part.value or b"")


def _ended(run: Run) -> tuple[State, Run]:
    held = not run.whole and all(part.seen for part in run.parts)
    return State.HELD if held else State.ENDED, run


def _left(open_: dict[tuple[object, ...], Run], now: int, most: int) -> Iterator[tuple[State, Run]]:
    for run in open_.values():
        yield _ended(run) if run.waited(now, most) else (State.OPEN, run)


def _record(part: Part) -> Record:
    """The shard, which has been decoded before."""
    try:
        [record] = records(Message(part.value), frozenset())
    except DecodeError as error:
        raise AssertionError(f"a fragment that is no shard: {error}") from error
    return record


def outcomes(
    spec: DecodeSpec, *, now: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that gives the silver rows of the runs that have ended."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = SourceDecoder(spec._replace(format=FORMAT))
        for state, found in walk(_parts(batches), now=now, most=_most(spec)):
            if state is State.ENDED:
                yield record_batch(_rows(found, decoder, now))

    return run


def spans(
    spec: DecodeSpec, *, now: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that gives each run's first and last batch, and if it is open.

    Its columns are those of SPAN.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for state, found in walk(_parts(batches), now=now, most=_most(spec)):
            numbers = [part.batch for part in found.parts]
            span = [[min(numbers)], [max(numbers)], [state is State.OPEN]]
            yield pa.record_batch(span, schema=_SPAN_SCHEMA)

    return run


def waiting_from(spans: Iterable[tuple[int, int, bool]], end: int) -> int:
    """The batch from which the next walk must read: no run that it sees may begin before it.

    That is the first batch of the runs that are open; `end` where none is.
    """
    known = list(spans)
    begin = min((first for first, _, open_ in known if open_), default=end)
    for first, last, _ in sorted(known, reverse=True):
        if first < begin <= last:
            begin = first
    return begin


def _most(spec: DecodeSpec) -> int:
    return int(spec.options[FORMAT].options[SECONDS]) * 1_000_000


def _rows(run: Run, decoder: SourceDecoder, now: int) -> list[SilverRow]:
    last = run.parts[-1]
    message = Message(
        bundled(part.value or b"" for part in run.parts),
        topic=last.topic,
        partition=last.partition,
        offset=last.offset,
        timestamp=None if last.arrived is None else last.arrived // 1000,
    )
    return decoder.rows(message, last.epoch, now)


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
    for batch in batches:
        columns = []
        for name in Part._fields:
            column = batch.column(name)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            columns.append(column.to_pylist())
        yield from map(Part._make, zip(*columns, strict=True))
