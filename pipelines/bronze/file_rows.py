"""The file of each message that bronze has of a source of files."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.files.record import FILE_HEADER
from ingest.sql.headers import header_value
from pipelines.platform.warehouse import Warehouse


def files_in_bronze(warehouse: Warehouse, source: str) -> DataFrame:
    """Its `ordinal` and `path`, a row a message; those of captured records, too."""
    captured = F.expr(f"decode({header_value(FILE_HEADER)}, 'UTF-8')")
    file = F.split(captured, " ", 2)
    table = warehouse.read("bronze", "messages")
    return table.where(F.col("source") == source).select(
        F.coalesce(file[0].cast("int"), F.col("partition")).alias("ordinal"),
        F.coalesce(file[1], F.col("topic")).alias("path"),
    )
