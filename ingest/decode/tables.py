"""Changes that were read by column as rows of silver: what `SourceDecoder` adds, by column.

What the transport knows, the key, the place and the identity of a change come from the functions
that give them to a single event; a table whose changes leave one of these in doubt is not lifted,
and its messages are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ingest import position as order
from ingest.codes import Code
from ingest.decode.keys import hash_keys
from ingest.decode.silver_rows import Repeated, RowTexts, table_batch
from ingest.decode.source import SourceDecoder, micros_of_record
from ingest.events import complete
from ingest.identity import change_hashes
from ingest.wire.contract import Changes, Message, Texts


class Batch(NamedTuple):
    """Messages of one source and one format, with the epoch of each; `now` in microseconds."""

    reader: SourceDecoder
    format: str
    messages: Sequence[Message]
    epochs: Sequence[int]
    now: int


class Table(NamedTuple):
    """Changes of one table that can be lifted: what their rows take from elsewhere."""

    changes: Changes
    keys: tuple[str, ...] | None
    by_arrival: bool

    def known(self, reader: SourceDecoder) -> bool:
        """Whether there is a row of the column types already, or none is needed."""
        return reader.knows(self.changes.events[0])

    def tail(self) -> Table:
        """All changes but the first."""
        return self._replace(changes=self.changes.tail())


def table_of(changes: Changes, batch: Batch) -> Table | None:
    """The changes with all that their source says of them; None where they are read one by one."""
    reader, events = batch.reader, changes.events
    if reader.defaults is not None:
        for event in events:
            complete(event, reader.defaults)
    keys = reader.declared_keys(events[0]) or events[0].key_columns or None
    messages = [batch.messages[at] for at in changes.at]
    if keys is None:
        if any(message.key is not None for message in messages):
            return None
    elif not set(keys) <= set(changes.names):
        return None
    elif len({key.lower() for key in keys}) < len(keys):
        return None
    _, by_arrival = reader.place(batch.format, messages[0].topic, messages[0].partition)
    if not by_arrival and any(event.order is None and not event.snapshot for event in events):
        return None
    return Table(changes, keys, by_arrival)


def silver_batch(table: Table, batch: Batch) -> pa.RecordBatch:
    """The silver rows of a table's changes. Raises what Arrow does not take."""
    changes = table.changes
    messages = [batch.messages[at] for at in changes.at]
    epochs = [batch.epochs[at] for at in changes.at]
    return table_batch(
        {
            **_of_transport(table, batch, messages, epochs=epochs),
            **_of_events(table, batch, messages),
            **_of_rows(table, messages),
        },
        len(messages),
    )


def _of_transport(
    table: Table, batch: Batch, messages: Sequence[Message], *, epochs: Sequence[int]
) -> dict[str, Any]:
    reader, events, by_arrival = batch.reader, table.changes.events, table.by_arrival
    place = reader.place
    streams = [place(batch.format, one.topic, one.partition)[0] for one in messages]
    if by_arrival:
        orders: list[tuple[int, ...]] = [reader.arrival(one) for one in messages]
    else:
        orders = [event.order or () for event in events]
    positions = [
        order.position(
            epoch=epoch,
            snapshot=event.snapshot,
            order=found,
            stream=stream,
            offset=message.offset,
            row=0,
            half=event.half,
        )
        for epoch, event, found, stream, message in zip(
            epochs, events, orders, streams, messages, strict=True
        )
    ]
    return {
        "kind": Repeated("change"),
        "source": Repeated(reader.source),
        "topic": [message.topic for message in messages],
        "partition": [message.partition for message in messages],
        "offset": [message.offset for message in messages],
        "row": Repeated(0),
        "pos": positions,
        "epoch": epochs,
        "s1": [pos[order.S1] for pos in positions],
        "arrived": [micros_of_record(message) for message in messages],
        "decoded_at": Repeated(batch.now),
    }


def _of_events(table: Table, batch: Batch, messages: Sequence[Message]) -> dict[str, Any]:
    events, types = table.changes.events, table.changes.events[0].types
    columns: dict[str, Any] = {
        name: [getattr(event, name) for event in events]
        for name in ("op_raw", "id", "sequenceId", "storeDataSequence", "scn", "sent_time", "extra")
    }
    doubts = [event.warnings for event in events]
    if table.by_arrival:
        for at, message in enumerate(messages):
            if message.place is not None:
                doubts[at] = [*(doubts[at] or ()), Code.CLOCK_STEPPED_BACK.value]
    return {
        **columns,
        "unavailable": Repeated(events[0].unavailable or None),
        "format": [event.format or batch.format for event in events],
        "op": [event.op for event in events],
        "db": Repeated(events[0].db),
        "schema": Repeated(events[0].schema),
        "table": Repeated(events[0].table),
        "key_columns": Repeated(table.keys),
        "before_image": [event.before_image for event in events],
        "after_image": [event.after_image for event in events],
        "event_time": [event.event_time for event in events],
        "tx_id": [event.tx_id for event in events],
        "schema_id": Repeated(None if types is None else types.id),
        "warnings": [
            list(dict.fromkeys(found)) if found and len(found) > 1 else found or None
            for found in doubts
        ],
    }


def _of_rows(table: Table, messages: Sequence[Message]) -> dict[str, Any]:
    """The images, the keys in them, and the hashes of both."""
    changes, key_names = table.changes, table.keys
    _, events, names, before, after = changes
    keys: Sequence[Texts | None] = [None] * len(events)
    keys_before = keys
    found: dict[str, Any] = {}
    if key_names is not None:
        old, new = _picked(key_names, names, before), _picked(key_names, names, after)
        keys = [
            was if event.op == "delete" or now is None else now
            for event, was, now in zip(events, old, new, strict=True)
        ]
        keys_before = [
            was if event.op == "update" and now is not None else None
            for event, was, now in zip(events, old, new, strict=True)
        ]
        found = {
            "key": RowTexts(key_names, keys),
            "key_before": RowTexts(key_names, keys_before),
            "key_hash": _key_hashes(keys, keys_before),
        }
    digests = change_hashes(
        zip(
            [event.op for event in events],
            _objects(key_names or (), keys),
            _objects(names, before),
            _objects(names, after),
            [event.unavailable or None for event in events],
            strict=True,
        )
    )
    images = {"before": RowTexts(names, before), "after": RowTexts(names, after)}
    return {**found, **images, "value_hash": digests}


def _key_hashes(keys: Sequence[Texts | None], before: Sequence[Texts | None]) -> list[int | None]:
    """The hash of each key; None where it is unknown or changes."""
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
    """Rows as what is written as the JSON objects of their columns, these in order of their names;
    None for None."""
    if rows.count(None) == len(rows):
        return iter(rows)
    make = _maker(names)
    return iter([None if row is None else make(row) for row in rows])


@lru_cache(maxsize=256)
def _maker(names: tuple[str, ...]) -> Callable[[Texts], object]:
    """Makes such an object: a struct, which is written faster than a dict, where it can have these
    names."""
    places = sorted(range(len(names)), key=names.__getitem__)
    ordered = [names[place] for place in places]
    if len(names) < 2:
        return lambda row: dict(zip(names, row, strict=True))
    pick = itemgetter(*places)
    attributes = [f"column_{number}" for number in range(len(names))]
    try:
        made = msgspec.defstruct(
            "Row",
            [(attribute, Any) for attribute in attributes],
            rename=dict(zip(attributes, ordered, strict=True)),
            gc=False,
        )
    except ValueError:
        return lambda row: dict(zip(ordered, pick(row), strict=True))
    return lambda row: made(*pick(row))
