"""Updates that came as two messages are joined in silver (semantics.md, 33).

The before-half is a `fragment` row; the after-half is a change that can stand alone. When the
second of the two arrives, in whatever order, partition or batch, one more row is appended: the
after-half with its before image. It stands at the coordinates and pos of the after-half, so history
counts the two as one change. `silver.changes` shows only the pair, by its warning.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.config.sources import Source
from ingest.decode.spec import scheme
from ingest.events import SILVER
from ingest.formats import FORMATS
from ingest.sql.delivery import DELIVERY
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.counts import Counts

_SPLIT = Code.SPLIT_UPDATE.value
_JOINED = Code.JOINED_UPDATE.value
_PAIR = ("source", "db", "schema", "table", "epoch", "sequenceId")


def join_split_updates(
    warehouse: Warehouse,
    source: Source,
    batch: int,
    *,
    counts: Counts,
    once: tuple[str, int],
    to: int,
    top: int | None = None,
) -> int:
    """Append, as batch `to`, the pairs that `batch` completes, whose contents are `counts`; gives
    how many. `top`: the highest batch after that, if it is another one."""
    pairs = completed_pairs(warehouse, source, batch, counts=counts, to=to)
    joined = pairs.count() if pairs is not None else 0
    if pairs is not None and joined:
        warehouse.append(pairs, "silver", "cdc", once=once, note=top or to)
    return joined


def join_left_apart(warehouse: Warehouse, source: Source, *, to: int) -> int:
    """Append, as batch `to`, the pairs of which silver has both halves and that nobody joined;
    gives how many. A killed run leaves them if its batch is not offered again."""
    silver = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    joined = silver.where(F.array_contains("warnings", _JOINED)).select(*DELIVERY)
    pairs = _pairs(silver.where(F.array_contains("warnings", _SPLIT)))
    pairs = pairs.join(joined, [*DELIVERY], "left_anti")
    pairs = pairs.withColumn("batch", F.lit(to).cast("bigint"))
    pairs = pairs.select([column.name for column in SILVER])
    count = pairs.count()
    if count:
        once = ("silver/pairs", warehouse.next_version("silver", "cdc"))
        warehouse.append(pairs, "silver", "cdc", once=once, note=to)
    return count


def completed_pairs(
    warehouse: Warehouse,
    source: Source,
    batch: int,
    *,
    counts: Counts,
    to: int,
    coming: DataFrame | None = None,
) -> DataFrame | None:
    """The pairs that `batch` completes, as rows of silver in batch `to`; None if it has no half.
    `coming`: its rows, if silver does not have them yet."""
    if counts.split_from is None or counts.split_to is None:
        return None
    there = warehouse.read("silver", "cdc").where(F.col("batch") <= batch)
    if coming is not None:
        there = there.unionByName(coming)
    known = there.where((F.col("source") == source.name) & F.array_contains("warnings", _SPLIT))
    halved = [name for name, format_ in FORMATS.items() if format_.splits_updates]
    if all(scheme(source, name) == "source" for name in halved):
        # Both halves have the place of the one record in the source; by arrival each has its own.
        known = known.where(F.col("s1").between(counts.split_from, counts.split_to))
    return _pairs(known, batch).withColumn("batch", F.lit(to).cast("bigint"))


def _pairs(split_updates: DataFrame, batch: int | None = None) -> DataFrame:
    """The after-halves that have a before-half, joined; of those of which one half is in `batch`,
    if that is given."""
    first = (
        split_updates.where("kind = 'fragment'")
        .groupBy(*_PAIR)
        .agg(
            F.min_by(F.struct("before", "before_image", "key"), "pos").alias("half"),
            F.max("batch").alias("came"),
        )
    )
    second = split_updates.where("kind = 'change' AND before IS NULL")
    same = [second[name].eqNullSafe(first[name]) for name in _PAIR]
    joined = second.join(first, on=same, how="inner")
    if batch is not None:
        joined = joined.where((second["batch"] == batch) | (first["came"] == batch))
    changed = F.to_json("half.key") != F.to_json(second["key"])
    replaced = {
        "before": F.col("half.before"),
        "before_image": F.col("half.before_image"),
        "key_before": F.col("half.key"),
        "key_hash": F.when(F.coalesce(changed, F.lit(True)), None).otherwise(second["key_hash"]),
        "warnings": F.array_append(F.array_remove(second["warnings"], _SPLIT), F.lit(_JOINED)),
    }
    return joined.select(
        *(replaced.get(column.name, second[column.name]).alias(column.name) for column in SILVER)
    )
