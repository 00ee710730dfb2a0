"""A column with one value, made by Spark's workers.

A literal in Spark is part of the code that it generates. A literal that differs from batch to
batch, as numbers and times do, would have code generated, compiled and kept for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_constant(read: Read, name: str, value: pa.Scalar) -> Read:
    """What `read` gives, with one more column at the end."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in read(batches):
            columns = [*batch.columns, pa.repeat(value, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, name])

    return run
