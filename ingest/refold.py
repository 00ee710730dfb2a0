"""The exact fold over Arrow batches: events of whole keys in, states of those keys out.

Expects the columns of `ingest.shape.events` and `component`, sorted by `component`: keys that key
changes link share one, so that they fold together (rulings.md, 40).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from ingest.fold import Change, Folded, fold

OUTPUT = (
    "key array<string>, row map<string,string>, gone boolean, whole boolean, sets array<string>, "
    "pos array<bigint>, event_time bigint, label string, deleted_at bigint, "
    "topic string, `partition` int, offset bigint, place int"
)
"""One row a key; or, with `key` null, one row a change without base, by its coordinates."""

_SCHEMA = pa.schema(
    [
        ("key", pa.list_(pa.string())),
        ("row", pa.map_(pa.string(), pa.string())),
        ("gone", pa.bool_()),
        ("whole", pa.bool_()),
        ("sets", pa.list_(pa.string())),
        ("pos", pa.list_(pa.int64())),
        ("event_time", pa.int64()),
        ("label", pa.string()),
        ("deleted_at", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("place", pa.int32()),
    ]
)
_ROWS_OUT = 2_000


def fold_batches(
    *, soft: bool, base: bool, by_arrival: bool, truncates: Sequence[Change] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; see `ingest.fold.fold` for `soft` and `base`.

    `truncates` are those of the source tables concerned; they reach every component.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        for _, group in groupby(_events(batches), key=lambda event: event["component"]):
            changes = [_change(event, by_arrival=by_arrival) for event in group]
            rows.extend(_rows(fold([*truncates, *changes], soft=soft, base=base)))
            if len(rows) >= _ROWS_OUT:
                yield _batch(rows)
                rows = []
        if rows:
            yield _batch(rows)

    return run


def _events(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _change(event: dict[str, Any], *, by_arrival: bool) -> Change:
    key, before = event["key"], event["key_before"]
    image = event["image"]
    return Change(
        op=event["op"],
        pos=tuple(event["pos"]),
        table=event["label"],
        key=tuple(key) if key is not None else None,
        key_before=tuple(before) if before is not None else None,
        image=dict(image) if image is not None else None,
        before=dict(event["before"]) if event["before"] is not None else None,
        partial=event["partial"],
        event_time=event["event_time"],
        transaction=event["tx"],
        digest=event["digest"],
        by_arrival=by_arrival,
        origin=(event["topic"], event["partition"], event["offset"], event["row"]),
    )


def _rows(folded: Folded) -> Iterator[tuple[Any, ...]]:
    nowhere = (None, None, None, None)
    for key, state in folded.states.items():
        row = state.row
        yield (
            list(key),
            list(row.items()) if row is not None else None,
            row is None,
            state.stands,
            list(row) if state.keeps and row is not None else None,
            list(state.pos),
            state.event_time,
            state.table,
            state.deleted_at,
            *nowhere,
        )
    for change in folded.baseless:
        origin = change.origin or nowhere
        yield (*[None] * 5, list(change.pos), change.event_time, change.table, None, *origin)


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )
