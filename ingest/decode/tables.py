"""Changes that were read by column as rows of silver: what `SourceDecoder` adds, by column.

What the transport knows, the key, the place and the identity of a change come from the functions
that give them to a single event; a table whose changes leave one of these in doubt is not lifted,
and its messages are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

from ingest import position as order
from ingest.codes import Code
from ingest.decode.keys import hash_values
from ingest.decode.silver_rows import Repeated, RowTexts, table_batch
from ingest.decode.source import SourceDecoder, micros_of_record
from ingest.events import Event, complete
from ingest.identity import change_hash
from ingest.wire.contract import Changes, Message, Texts

_Object = Callable[[Texts], object]


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


class _Happened(msgspec.Struct, gc=False):
    """What makes a change's identity, as `change_hash` asks for it."""

    op: str
    key: object
    before: object
    after: object
    unavailable: list[str] | None
    crowded: bool = False


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
        key_of = _picked(key_names, names)
        old, new = list(map(key_of, before)), list(map(key_of, after))
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
            "key_hash": [
                None if key is None or (was is not None and was != key) else hash_values(key)
                for key, was in zip(keys, keys_before, strict=True)
            ],
        }
    row, key_row = _object(names), _object(key_names or ())
    happened = (
        _Happened(
            event.op,
            None if key is None else key_row(key),
            None if was is None else row(was),
            None if now is None else row(now),
            event.unavailable or None,
        )
        for event, key, was, now in zip(events, keys, before, after, strict=True)
    )
    digests = [
        change_hash(cast(Event, what), message)
        for what, message in zip(happened, messages, strict=True)
    ]
    images = {"before": RowTexts(names, before), "after": RowTexts(names, after)}
    return {**found, **images, "value_hash": digests}


def _picked(
    columns: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Texts | None], Texts | None]:
    """Takes the texts of some columns out of a row of all."""
    places = [names.index(column) for column in columns]
    if len(places) == 1:
        [place] = places
        return lambda row: None if row is None else (row[place],)
    pick = itemgetter(*places)
    return lambda row: None if row is None else pick(row)


@lru_cache(maxsize=256)
def _object(names: tuple[str, ...]) -> _Object:
    """Makes of a row what is written as the JSON object of its columns, these in order of their
    names: a struct, which is written faster than a dict, where it can have such names."""
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
