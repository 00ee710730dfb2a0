"""A column that has one value, laid by Spark's workers.

A literal of Spark's is a part of the code that it generates. One that differs from batch to batch,
as their numbers and times do, has each batch's code generated, compiled and kept anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_constant(read: Read, name: str, value: pa.Scalar) -> Read:
    """What `read` gives, with one more column, the last."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in read(batches):
            columns = [*batch.columns, pa.repeat(value, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, name])

    return run
