"""Changes that were read by column as rows of silver: what `SourceDecoder` adds, added by column.

What the transport knows, the key, the place and the identity of a change come from the same
functions as for a single event. If one of these is in doubt for a table's changes, its messages are
read one by one instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import compute

from ingest import position as order
from ingest.codes import Code
from ingest.decode.keys import hash_keys
from ingest.decode.silver_rows import Repeated, RowTexts, positions, table_batch
from ingest.decode.source import SourceDecoder
from ingest.identity import change_hashes
from ingest.names import lowered
from ingest.wire.contract import Changes, Message, Texts


class Coordinates(NamedTuple):
    """Where the messages of a part stood, as columns of silver: topic, partition, offset, epoch;
    and `ms`, their arrival in milliseconds."""

    columns: pa.RecordBatch

    @classmethod
    def of(cls, bronze: pa.RecordBatch) -> Coordinates:
        """Those of the messages in a batch of bronze."""
        ms = bronze.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        if "place" in bronze.schema.names:
            ms = compute.coalesce(bronze.column("place"), ms)
        found = bronze.select(["topic", "partition", "offset", "epoch"])
        return cls(found.append_column("ms", ms))

    def silver(self, at: Sequence[int]) -> dict[str, pa.Array]:
        """The columns of silver for some messages, given by their indexes in ascending order."""
        found = self.columns
        if len(at) < found.num_rows:
            found = found.take(pa.array(at, pa.int32()))
        ms = found.column("ms")
        known = compute.if_else(compute.greater_equal(ms, 0), ms, None)
        arrived = compute.multiply_checked(known, 1000).cast(pa.timestamp("us", "UTC"))
        names = "topic", "partition", "offset", "epoch"
        return {**{name: found.column(name) for name in names}, "arrived": arrived}


class Batch(NamedTuple):
    """Messages of one source and one format, with the epoch of each and the coordinates of the
    whole part; `now` in microseconds."""

    decoder: SourceDecoder
    format: str
    messages: Sequence[Message]
    epochs: Sequence[int]
    coordinates: Coordinates
    now: int


class Table(NamedTuple):
    """Changes of one table that can become rows by column, with what their rows take from
    elsewhere."""

    changes: Changes
    keys: tuple[str, ...] | None
    by_arrival: bool

    def known(self, decoder: SourceDecoder) -> bool:
        """Whether there is a row of the column types already, or none is needed."""
        return decoder.knows(self.changes.event)

    def tail(self) -> Table:
        """All changes but the first."""
        return self._replace(changes=self.changes.tail())


def table_of(changes: Changes, batch: Batch) -> Table | None:
    """The changes with everything that their source says of them; None if they have to be read one
    by one."""
    decoder, event = batch.decoder, changes.event
    decoder.declared.complete(event)
    keys = decoder.declared.keys_of(event) or event.key_columns or None
    messages = [batch.messages[at] for at in changes.at]
    by_arrival = decoder.places.of(batch.format, messages[0]).by_arrival
    if keys is None:
        crowded = event.crowded and not by_arrival
        if crowded or any(message.key is not None for message in messages):
            return None
    elif not set(keys) <= set(changes.names):
        return None
    elif len(lowered(keys)) < len(keys):
        return None
    orders = changes.each("order")
    if not by_arrival and None in orders:
        placed = zip(orders, changes.each("snapshot"), strict=True)
        if any(order is None and not snapshot for order, snapshot in placed):
            return None
    return Table(changes, keys, by_arrival)


def silver_batch(table: Table, batch: Batch) -> pa.RecordBatch:
    """The silver rows of a table's changes. Raises what Arrow does not take."""
    changes = table.changes
    messages = [batch.messages[at] for at in changes.at]
    return table_batch(
        {
            **_of_transport(table, batch, messages),
            **_of_events(table, batch, messages),
            **_of_rows(table),
        },
        len(messages),
    )


def _of_transport(table: Table, batch: Batch, messages: Sequence[Message]) -> dict[str, Any]:
    """Where the changes stand: at the transport, and in the one order."""
    decoder, changes = batch.decoder, table.changes
    places = {(one.topic, one.partition): one for one in messages}
    streams = {place: decoder.places.of(batch.format, one).stream for place, one in places.items()}
    if table.by_arrival:
        orders = [decoder.places.arrival(message) for message in messages]
    else:
        orders = [found or () for found in changes.each("order")]
    pos, s1 = positions(
        order.position_columns(
            epochs=[batch.epochs[at] for at in changes.at],
            snapshots=changes.each("snapshot"),
            orders=orders,
            streams=list(streams.values()) * len(messages)
            if len(streams) == 1
            else [streams[one.topic, one.partition] for one in messages],
            offsets=[message.offset for message in messages],
            halves=changes.each("half"),
        ),
        len(messages),
    )
    return {
        "kind": Repeated("change"),
        "source": Repeated(decoder.source),
        "row": Repeated(0),
        "pos": pos,
        "s1": s1,
        "decoded_at": Repeated(batch.now),
        **batch.coordinates.silver(changes.at),
    }


_AS_READ = tuple(
    """
    op op_raw before_image after_image id sequenceId storeDataSequence scn event_time sent_time
    tx_id extra
    """.split()
)


def _of_events(table: Table, batch: Batch, messages: Sequence[Message]) -> dict[str, Any]:
    """What is said of the changes beside their rows."""
    changes, event = table.changes, table.changes.event
    varying, types = changes.varying, event.types
    columns: dict[str, Any] = {
        name: varying[name] if name in varying else Repeated(getattr(event, name))
        for name in _AS_READ
    }
    formats = varying.get("format", (event.format,))
    doubts = changes.each("warnings")
    if table.by_arrival:
        stepped = Code.CLOCK_STEPPED_BACK.value
        doubts = [
            codes if message.place is None else [*(codes or ()), stepped]
            for codes, message in zip(doubts, messages, strict=True)
        ]
    return {
        **columns,
        "format": [given or batch.format for given in formats]
        if len(formats) > 1
        else Repeated(formats[0] or batch.format),
        "unavailable": Repeated(event.unavailable or None),
        "db": Repeated(event.db),
        "schema": Repeated(event.schema),
        "table": Repeated(event.table),
        "key_columns": Repeated(table.keys),
        "schema_id": Repeated(None if types is None else types.id),
        "warnings": [
            list(dict.fromkeys(codes)) if codes and len(codes) > 1 else codes or None
            for codes in doubts
        ],
    }


def _of_rows(table: Table) -> dict[str, Any]:
    """The images, the keys in them, and the hashes of both."""
    changes, key_names = table.changes, table.keys
    names, before, after = changes.names, changes.before, changes.after
    ops = changes.each("op")
    keys: Sequence[Texts | None] = [None] * len(ops)
    keys_before = keys
    keyed: dict[str, Any] = {}
    if key_names is not None:
        old, new = _picked(key_names, names, before), _picked(key_names, names, after)
        keys = [
            was if op == "delete" or now is None else now
            for op, was, now in zip(ops, old, new, strict=True)
        ]
        keys_before = [
            was if op == "update" and now is not None else None
            for op, was, now in zip(ops, old, new, strict=True)
        ]
        keyed = {
            "key": RowTexts(key_names, keys),
            "key_before": RowTexts(key_names, keys_before),
            "key_hash": _key_hashes(keys, keys_before),
        }
    digests = change_hashes(
        zip(
            ops,
            _objects(key_names or (), keys),
            _objects(names, before),
            _objects(names, after),
            repeat(changes.event.unavailable or None, len(ops)),
            strict=True,
        )
    )
    images = {"before": RowTexts(names, before), "after": RowTexts(names, after)}
    return {**keyed, **images, "value_hash": digests}


def _key_hashes(keys: Sequence[Texts | None], before: Sequence[Texts | None]) -> list[int | None]:
    """The hash of each key; None if it is unknown or changes."""
    lasting = [
        None if was is not None and was != key else key
        for key, was in zip(keys, before, strict=True)
    ]
    hashes = iter(hash_keys([key for key in lasting if key is not None]))
    return [None if key is None else next(hashes) for key in lasting]


def _picked(
    columns: tuple[str, ...], names: tuple[str, ...], rows: Sequence[Texts | None]
) -> list[Texts | None]:
    """The texts of some columns, out of rows of all."""
    places = [names.index(column) for column in columns]
    if len(places) == 1:
        [place] = places
        return [None if row is None else (row[place],) for row in rows]
    pick = itemgetter(*places)
    return [None if row is None else pick(row) for row in rows]


def _objects(names: tuple[str, ...], rows: Sequence[Texts | None]) -> Iterator[object]:
    """For each row what is written as the JSON object of its columns, in the order of their names;
    None for None."""
    if rows.count(None) == len(rows):
        return iter(rows)
    pick, make = _maker(names)
    return iter([None if row is None else make(*pick(row)) for row in rows])


@lru_cache(maxsize=256)
def _maker(names: tuple[str, ...]) -> tuple[Callable[[Texts], Iterable[Any]], Callable[..., Any]]:
    """A function that gives the texts of a row in the order of their names, and one that makes such
    an object of them: a struct, which is written faster than a dict, if it can have these names."""
    places = sorted(range(len(names)), key=names.__getitem__)
    ordered = [names[place] for place in places]
    # with a single place itemgetter gives no tuple
    pick: Callable[[Texts], Iterable[Any]] = itemgetter(*places) if len(places) > 1 else tuple
    attributes = [f"column_{number}" for number in range(len(names))]
    try:
        made = msgspec.defstruct(
            "Row",
            [(attribute, Any) for attribute in attributes],
            rename=dict(zip(attributes, ordered, strict=True)),
            gc=False,
        )
    except ValueError:
        return pick, lambda *texts: dict(zip(ordered, texts, strict=True))
    return pick, made
