"""The contents of a silver append, counted while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ingest.codes import Code
from pipelines.telemetry.latency import QUANTILES

_ACCURACY = 1_000


class Counts(NamedTuple):
    """How many rows of all kinds, and rejects and shards among them; about how many source tables;
    the range of `s1` of halves of split updates (None: there are none); how many messages the rows
    are from; how many rows are changes or parts of one. Quantiles of the times (µs) at which
    changes happened, without snapshots, None if no change says when; and of the times at which they
    arrived."""

    rows: int = 0
    rejects: int = 0
    shards: int = 0
    tables: int = 0
    split_from: int | None = None
    split_to: int | None = None
    messages: int = 0
    changes: int = 0
    event_times: Sequence[int] | None = None
    arrivals: Sequence[int] | None = None


def observed(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """The rows, and the observation that counts them while they are written."""
    observation = Observation()
    return rows.observe(observation, *_measures()), observation


def counts_in(observation: Observation) -> Counts:
    """What was counted; waits for the write."""
    return Counts(**observation.get)


def count(rows: DataFrame) -> Counts:
    """The same for rows that are in the table."""
    row = rows.agg(*_measures()).first()
    assert row is not None
    return Counts(**row.asDict())


def _measures() -> list[Column]:
    streamed = (F.col("kind") == "change") & (F.col("op") != "snapshot")
    happened = F.when(streamed, F.unix_micros("event_time"))
    changed = F.col("kind").isin("change", "fragment")
    arrived = F.when(changed, F.unix_micros("arrived"))
    half = F.when(F.array_contains("warnings", Code.SPLIT_UPDATE.value), F.col("s1"))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("kind") == "reject").alias("rejects"),
        F.count_if(F.array_contains("warnings", Code.SHARD.value)).alias("shards"),
        F.approx_count_distinct(F.struct("db", "schema", "table")).alias("tables"),
        F.min(half).alias("split_from"),
        F.max(half).alias("split_to"),
        F.count_if(F.col("row") == 0).alias("messages"),
        F.count_if(changed).alias("changes"),
        F.percentile_approx(happened, list(QUANTILES), _ACCURACY).alias("event_times"),
        F.percentile_approx(arrived, list(QUANTILES), _ACCURACY).alias("arrivals"),
    ]
