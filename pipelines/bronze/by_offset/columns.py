"""Messages as columns of bronze, in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

COLUMNS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key:string,value:binary>>"
)
_NAMES = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def record_batch(
    *,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    headers: Sequence[tuple[tuple[str, bytes | None], ...] | None],
    topics: Sequence[str],
    partitions: Sequence[int],
    offsets: Sequence[int],
    times: Sequence[int | None],
) -> pa.RecordBatch:
    """A batch of COLUMNS of as many messages; `times` in milliseconds of the epoch."""
    arrays = [
        pa.array(topics, pa.string()),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        pa.array(keys, pa.binary()),
        _value_array(values),
        _header_array(headers),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=_NAMES)


def _value_array(values: Sequence[bytes | None]) -> pa.Array:
    """Takes one copy of the values, where an Arrow builder that grows takes up to three."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return pa.array(values, pa.binary())
    ends = pa.array(accumulate(map(len, present), initial=0), pa.int32())
    data = pa.py_buffer(b"".join(present))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, ends.buffers()[1], data])


def _header_array(rows: Sequence[tuple[tuple[str, bytes | None], ...] | None]) -> pa.Array:
    if rows.count(None) == len(rows):
        return pa.nulls(len(rows), pa.list_(_HEADER))
    pairs = [pair for row in rows for pair in row or ()]
    offsets: list[int | None] = []
    end = 0
    for row in rows:
        offsets.append(end if row else None)
        end += len(row or ())
    structs = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in pairs], pa.string()),
            pa.array([value for _, value in pairs], pa.binary()),
        ],
        fields=list(_HEADER),
    )
    return pa.ListArray.from_arrays(pa.array([*offsets, end], pa.int32()), structs)
