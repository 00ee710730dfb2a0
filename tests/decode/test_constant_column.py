"""A column of one value is laid by who reads, not by the code that Spark generates."""

from __future__ import annotations

import pyarrow as pa

from ingest.decode.constant_column import with_constant


def test_every_batch_has_it_last() -> None:
    batches = [pa.RecordBatch.from_pydict({"a": values}) for values in ([1, 2], [], [3])]
    read = with_constant(lambda read: read, "batch", pa.scalar(7, pa.int64()))
    given = list(read(iter(batches)))
    assert [batch.to_pydict() for batch in given] == [
        {"a": [1, 2], "batch": [7, 7]},
        {"a": [], "batch": []},
        {"a": [3], "batch": [7]},
    ]
    assert all(batch.schema.field("batch").type == pa.int64() for batch in given)
