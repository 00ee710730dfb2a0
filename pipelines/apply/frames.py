"""DataFrames under names by which SQL finds them, as long as they are worked with."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from ingest.fold.fold import Key
from ingest.sql.fold.late_keys import few_keys
from pipelines.apply import bounds
from pipelines.platform.rows import array_of, rows, temporary_view
from pipelines.platform.scratch import set_down
from pipelines.platform.warehouse import Warehouse


class Frames:
    """The tables, and names for DataFrames that last until its `with` ends."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self._given = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._given.close()

    def sql(self, query: str) -> DataFrame:
        """The result of a query."""
        return self.warehouse.session.sql(query)

    def view(self, frame: DataFrame | pa.Table) -> str:
        """A name under which SQL finds `frame`."""
        session = self.warehouse.session
        if isinstance(frame, pa.Table) and frame.num_rows:
            frame = session.createDataFrame(frame)
        elif isinstance(frame, pa.Table):
            # Spark cannot make a DataFrame of a table without batches.
            frame = session.createDataFrame([], from_arrow_schema(frame.schema))
        return self._given.enter_context(temporary_view(frame))

    def key_view(self, keys: Iterable[Key]) -> str:
        """A relation of keys, column `key`."""
        return self.view(pa.table({"key": array_of(keys)}))

    def set_down(self, frame: DataFrame) -> str:
        """As `view`, for a frame that is computed once, now."""
        return self._given.enter_context(set_down(self.warehouse, frame))

    def few_keys(self, keys: str) -> set[Key] | None:
        """The keys (column `key`) that SQL gives; None if they are too many for the driver."""
        few = few_keys(keys, most=bounds.KEYS, bytes_most=bounds.KEY_BYTES)
        found = {None if key is None else tuple(key) for (key,) in rows(self.sql(few))}
        return None if None in found or len(found) > bounds.KEYS else cast("set[Key]", found)
