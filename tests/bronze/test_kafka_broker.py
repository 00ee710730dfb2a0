"""The broker that other tests stand on, read and written through Spark's own Kafka source."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from pipelines.platform.session import connect_kafka
from tests.support.kafka_broker import Record, create_topic, produce

SENT = [
    Record(b'{"id":1}', b"k1", (("trace", b"a"), ("empty", None)), 0, 1_700_000_000_123),
    Record(None, b"k1", (), 1, 1),
    Record(b"\x00\xff", None, (), 0, 1_700_000_000_000),
]


def test_spark_reads_what_was_produced(spark: SparkSession, kafka: str) -> None:
    create_topic(kafka, "read.records", partitions=2)
    produce(kafka, "read.records", SENT)
    connect_kafka(spark)
    found = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka)
        .option("subscribe", "read.records")
        .option("includeHeaders", "true")
        .load()
        .select("partition", "offset", "key", "value", "headers", F.unix_millis("timestamp"))
        .orderBy("partition", "offset")
        .collect()
    )
    headers = [Row(key="trace", value=bytearray(b"a")), Row(key="empty", value=None)]
    assert [tuple(row) for row in found] == [
        (0, 0, b"k1", b'{"id":1}', headers, 1_700_000_000_123),
        (0, 1, None, b"\x00\xff", None, 1_700_000_000_000),
        (1, 0, b"k1", None, None, 1),
    ]


def test_stream_takes_up_where_it_ended(spark: SparkSession, kafka: str, warehouse: Path) -> None:
    create_topic(kafka, "stream.records", partitions=2)
    connect_kafka(spark)

    def run() -> list[tuple[Any, ...]]:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", kafka)
            .option("subscribe", "stream.records")
            .option("startingOffsets", "earliest")
            .load()
            .select("partition", "offset", "value")
            .writeStream.format("delta")
            .option("checkpointLocation", str(warehouse / "_checkpoint"))
            .trigger(availableNow=True)
            .start(str(warehouse / "records"))
        )
        stream.awaitTermination()
        table = spark.read.format("delta").load(str(warehouse / "records"))
        return [tuple(row) for row in table.orderBy("partition", "offset").collect()]

    produce(kafka, "stream.records", [Record(b"a"), Record(b"b", partition=1)])
    assert run() == [(0, 0, b"a"), (1, 0, b"b")]
    produce(kafka, "stream.records", [Record(b"c")])
    assert run() == [(0, 0, b"a"), (0, 1, b"c"), (1, 0, b"b")]


def test_every_thread_connects_for_itself(spark: SparkSession, kafka: str) -> None:
    create_topic(kafka, "thread.records")
    produce(kafka, "thread.records", [Record(b"x", timestamp=1)])

    def read() -> list[Row]:
        connect_kafka(spark)
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka)
        records = source.option("subscribe", "thread.records").load()
        return records.select("value", F.unix_millis("timestamp")).collect()

    with ThreadPoolExecutor(1) as pool:
        (row,) = pool.submit(read).result()
    assert tuple(row) == (b"x", 1)
