"""Rows of a small table by their id: written over the ones there are, or added."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pipelines.tables import Warehouse

Columns = Sequence[tuple[str, str]]
_ONE_AT_A_TIME = threading.Lock()
"""Targets are merged by several threads, and two MERGEs into one table conflict; other processes
are kept out by the lease."""


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
