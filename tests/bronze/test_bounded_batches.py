"""However much waits, a micro-batch stays within its bound: a backlog costs time, not memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.bronze.source import ingest_source
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream
from pipelines.silver.stream import decode_source
from tests.bronze.test_bronze_kafka import topics
from tests.support.kafka_broker import Record, create_topic, produce
from tests.support.project import canal
from tests.support.tables import tables_in

MESSAGES, MOST = 50_000, 5_000
AS_TOLD = {0: 45_000, 1: 4_900, 2: 90, 3: 10}
"""Messages by partition: almost all that waits is in one, as where a key is hot."""


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


def appended(tables: Warehouse, layer: str, table: str) -> Iterator[tuple[int, list[int]]]:
    """Of each commit that adds rows how many there are, and the bytes of each of its files."""
    log = tables.folder(layer, table) / "_delta_log"
    for file in sorted(log.glob("*.json")):
        actions = map(json.loads, file.read_text().splitlines())
        added = [action["add"] for action in actions if "add" in action]
        if added:
            rows = (json.loads(add["stats"])["numRecords"] for add in added)
            yield sum(rows), [add["size"] for add in added]


@pytest.mark.slow
def test_fifty_thousand_messages_wait(
    kafka: str, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bronze takes them by offsets, silver by bytes of bronze: that and one file more."""
    create_topic(kafka, "backlog", partitions=len(AS_TOLD))
    for partition, count in AS_TOLD.items():
        produce(
            kafka,
            "backlog",
            (
                Record(json.dumps(_change(f"{partition}-{n}", n)).encode(), partition=partition)
                for n in range(count)
            ),
        )
    source = topics(kafka, "backlog", max_offsets_per_batch=MOST)
    assert ingest_source(tables, source).messages == MESSAGES
    bronze = list(appended(tables, "bronze", "messages"))
    rows = [count for count, _ in bronze]
    assert (sum(rows), max(rows) <= MOST) == (MESSAGES, True), rows
    assert len(rows) <= MESSAGES // MOST + 2, rows
    largest = max(size for _, files in bronze for size in files)
    monkeypatch.setattr(stream, "_BYTES_A_BATCH", f"{2 * largest}b")
    decoded = decode_source(tables, source)
    assert decoded.messages == decoded.changes == MESSAGES
    silver = tables.read("silver", "cdc").where(F.col("kind") == "change")
    held = [row["count"] for row in silver.groupBy("batch").count().collect()]
    whole = sum(size for _, files in bronze for size in files)
    assert sum(held) == MESSAGES and len(held) >= whole // (3 * largest), held
    assert max(held) <= 3 * MOST, held


@pytest.mark.slow
def test_partitions_of_which_little_waits_are_not_on_top(kafka: str, tables: Warehouse) -> None:
    """Spark gives each of them an offset, however little that is of all that waits."""
    create_topic(kafka, "uneven", partitions=6)
    counts = (200, 1, 1, 1, 1, 1)
    produce(
        kafka,
        "uneven",
        [Record(b"%d" % n, partition=p) for p, count in enumerate(counts) for n in range(count)],
    )
    source = topics(kafka, "uneven", max_offsets_per_batch=50)
    assert ingest_source(tables, source).messages == sum(counts)
    rows = [count for count, _ in appended(tables, "bronze", "messages")]
    assert max(rows) <= 50, rows


def _change(name: str, number: int) -> dict[str, object]:
    row = {"id": str(number), "name": name, "price": "1.25"}
    return canal("items", "INSERT", row, es=1_700_000_000_000 + number, id_=number)
