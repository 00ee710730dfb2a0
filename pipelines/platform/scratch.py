"""DataFrames stored as tables of their own, or held by Spark, for as long as they are worked with.

If such a table is read twice, it is still computed only once, and it may be larger than any memory.
The tables of a killed process stay; their names say when they were made, and whoever stores
something days later removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from pipelines.platform.rows import temporary_view
from pipelines.platform.warehouse import Warehouse

_LAYER, _PREFIX, _MADE = "silver", "_scratch_", "%Y%m%d%H%M%S"
_DEAD = timedelta(days=3)


@contextmanager
def set_down(warehouse: Warehouse, frame: DataFrame) -> Iterator[str]:
    """The SQL name of a table that holds the rows of `frame` until the end."""
    now = datetime.now(UTC)
    drop_older(warehouse, _DEAD)
    name = f"{_PREFIX}{now.strftime(_MADE)}_{uuid.uuid4().hex}"
    columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    try:
        warehouse.create(_LAYER, name, columns)
        warehouse.append(frame, _LAYER, name)
        yield warehouse.name(_LAYER, name)
    finally:
        warehouse.drop(_LAYER, name)


@contextmanager
def cached_view(frame: DataFrame) -> Iterator[str]:
    """A name under which SQL finds the rows of `frame`, computed once, now, and held by Spark's
    executors until the end: for few rows, in a process that has its tasks. (A MERGE refuses a
    source that is cached.)"""
    rows = frame.localCheckpoint()
    kept: Any = rows._jdf.queryExecution().logical().rdd()
    try:
        with temporary_view(rows) as name:
            yield name
    finally:
        kept.unpersist(False)


def drop_older(warehouse: Warehouse, age: timedelta) -> list[str]:
    """Drop the tables that dead processes stored longer ago; gives the names of those that are
    left."""
    least = _PREFIX + (datetime.now(UTC) - age).strftime(_MADE)
    there = [name for name in warehouse.tables(_LAYER) if name.startswith(_PREFIX)]
    for name in there:
        if name < least:
            warehouse.drop(_LAYER, name)
    return [name for name in there if name >= least]
