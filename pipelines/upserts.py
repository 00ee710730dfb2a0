"""Rows of a small table by their id: written over the ones there are, or added."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from pipelines.tables import Warehouse

Columns = Sequence[tuple[str, str]]
_ONE_AT_A_TIME = threading.Lock()
"""Targets are merged by several threads, and a MERGE conflicts with every other write to its table;
other processes are kept out by the lease."""


def add(warehouse: Warehouse, layer: str, table: str, rows: DataFrame) -> None:
    """Append rows to a table that others upsert into."""
    with _ONE_AT_A_TIME:
        warehouse.append(rows.coalesce(1), layer, table)


def upsert(
    warehouse: Warehouse, layer: str, table: str, columns: Columns, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Put `rows` (values in the order of `columns`, `id` among them) in, by one commit."""
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in columns)
    frame = warehouse.session.createDataFrame(rows, schema).coalesce(1)
    view = f"_{table}_{id(frame)}"
    frame.createOrReplaceTempView(f"`{view}`")
    try:
        with _ONE_AT_A_TIME:
            warehouse.session.sql(
                f"MERGE INTO {warehouse.name(layer, table)} t USING `{view}` s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
    finally:
        warehouse.session.catalog.dropTempView(view)
