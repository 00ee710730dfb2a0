"""Rows written to a table, by their `id`, by several threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from ingest.sql.query import select
from ingest.sql.quoting import typed_columns
from ingest.sql.tables import rows as texts
from pipelines.platform.rows import temporary_view
from pipelines.platform.warehouse import Warehouse

Columns = Sequence[tuple[str, str]]
_ONE_AT_A_TIME = threading.Lock()
"""Several threads merge targets, and a MERGE conflicts with every other write to its table; the
lease keeps other processes out."""


@contextmanager
def alone() -> Iterator[None]:
    """Let only one thread of this process write to such a table at a time."""
    with _ONE_AT_A_TIME:
        yield


def add(warehouse: Warehouse, layer: str, table: str, *, rows: DataFrame) -> None:
    """Append rows to a table that others upsert into."""
    with _ONE_AT_A_TIME:
        warehouse.append(rows.coalesce(1), layer, table)


def upsert(
    warehouse: Warehouse,
    layer: str,
    table: str,
    *,
    columns: Columns,
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Put `rows` (values in the order of `columns`, `id` among them) in, by one commit."""
    schema = typed_columns(columns)
    frame = warehouse.session.createDataFrame(rows, schema).coalesce(1)
    with temporary_view(frame) as view:
        upsert_from(warehouse, layer, table, rows=select(view))


def upsert_from(warehouse: Warehouse, layer: str, table: str, *, rows: str) -> None:
    """Write the rows that SQL gives, with all columns of the table, over those with the same `id`,
    by one commit."""
    with _ONE_AT_A_TIME:
        warehouse.execute(texts.upsert(warehouse.name(layer, table), rows))


def change_from(warehouse: Warehouse, layer: str, table: str, *, rows: str, counted: str) -> None:
    """Change the columns that SQL gives, of rows that exist. `counted`, which SQL gives as it is
    now, is raised by one."""
    columns = [name for name in warehouse.session.sql(rows).columns if name != "id"]
    statement = texts.change(warehouse.name(layer, table), rows, columns=columns, counted=counted)
    with _ONE_AT_A_TIME:
        warehouse.execute(statement)
