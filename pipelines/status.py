"""`ingest status`: where each source and each target stands, from the tables alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from ingest.config import Config
from ingest.errors import IngestError
from ingest.modes import told
from ingest.order import EPOCH
from ingest.sources import Source
from pipelines.console import Advance
from pipelines.known_targets import gold_tables
from pipelines.listings import DDL, ddl
from pipelines.progress import SWEEP, made_of
from pipelines.results import records
from pipelines.tables import Warehouse

SOURCE = ("kind", "source", "messages", "lag", "unread_files", "rejects")
TABLE = (
    *("kind", "table", "source", "rows", "last_pos", "freshness", "late", "rejected"),
    *("parked", "error", "pending_ddl", "rows_of_old_epochs", "mode"),
)


def source_rows(warehouse: Warehouse, config: Config) -> list[list[Any]]:
    """A row a declared source: the columns SOURCE.

    `lag` counts messages of bronze that silver has not decoded, `unread_files` files that bronze
    has not read (null for Kafka, and where the files cannot be listed).
    """
    messages = _counts(
        warehouse, "bronze", "messages", "SELECT source, count(*) AS n FROM {table} GROUP BY source"
    )
    # Every message has a row 0, a joined pair of halves a second one: so offsets are counted, in
    # bitmaps, which is exact and needs no memory of its own. Bronze's are among them, since
    # retention takes messages away once they are decoded.
    known = _counts(warehouse, "silver", "cdc", _offsets("{table}"))
    bronze = warehouse.name("bronze", "messages").replace("{", "{{").replace("}", "}}")
    both = f"(SELECT {_PLACE} FROM {{table}} UNION ALL SELECT {_PLACE} FROM {bronze})"
    reached = _counts(warehouse, "silver", "cdc", _offsets(both))
    lag = {name: reached.get(name, 0) - known.get(name, 0) for name in messages}
    if not known:
        lag = messages
    rejects = _counts(
        warehouse,
        "silver",
        "cdc",
        "SELECT source, count(*) AS n FROM {table} WHERE kind = 'reject' GROUP BY source",
    )
    return [
        [
            "source",
            name,
            messages.get(name, 0),
            lag.get(name, 0),
            _unread_files(warehouse, source),
            rejects.get(name, 0),
        ]
        for name, source in config.sources.items()
    ]


_PLACE = "source, topic, `partition`, offset"


def _offsets(relation: str) -> str:
    """SQL of how many different messages the relation knows, by source."""
    return (
        "SELECT source, sum(bitmap_count(bits)) AS n FROM (SELECT source, "
        "bitmap_construct_agg(bitmap_bit_position(offset)) AS bits "
        f"FROM {relation} GROUP BY source, topic, `partition`, bitmap_bucket_number(offset)) "
        "GROUP BY source"
    )


def table_rows(warehouse: Warehouse, config: Config, *, advance: Advance) -> list[list[Any]]:
    """A row a target, created or not: the columns TABLE; `advance` is told each that is done."""
    stands = {row["target"]: row for row in _progress(warehouse)}
    pending: dict[str, int] = {}
    for entry in ddl(warehouse, status="pending"):
        target = entry[DDL.index("target")]
        pending[target] = pending.get(target, 0) + 1
    rejected = _counts(
        warehouse,
        "gold",
        "_rejects",
        "SELECT target, count(*) AS n FROM (SELECT target, max_by(status, version) AS status "
        "FROM {table} GROUP BY id, target) WHERE status = 'open' GROUP BY target",
    )
    created = set(gold_tables(warehouse))

    def row(target: str) -> list[Any]:
        stand = stands.get(target, {})
        source = config.sources.get(stand.get("source", ""))
        epoch = source.epoch if source is not None else 0
        total, old = _size(warehouse, target, epoch) if target in created else (0, 0)
        advance(target, False)
        return [
            "table",
            target,
            stand.get("source"),
            total,
            stand.get("last_pos"),
            stand.get("freshness"),
            stand.get("late") or 0,
            rejected.get(target, 0),
            stand.get("status") == "parked",
            stand.get("error"),
            pending.get(target, 0),
            old,
            told(made_of(stand.get("state"))),
        ]

    with ThreadPoolExecutor(max_workers=config.settings.merge_threads) as pool:
        return list(pool.map(row, sorted({*created, *stands})))


def _progress(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The newest row of each target, with `late` summed over all its runs."""
    if not warehouse.exists("gold", "_progress"):
        return []
    return records(
        warehouse.session.sql(
            "SELECT target, last.*, late FROM (SELECT target, sum(late) AS late, max_by(struct("
            "source, status, error, last_pos, freshness, state), struct(at, batch)) AS last "
            f"FROM {warehouse.name('gold', '_progress')} WHERE target <> '{SWEEP}' GROUP BY target)"
        )
    )


def _size(warehouse: Warehouse, target: str, epoch: int) -> tuple[int, int]:
    """Rows, and those not seen again since the source's epoch was raised (rulings.md, 15)."""
    old = f"count_if(element_at(_pos, {EPOCH}) < {epoch})" if epoch else "0"
    session: SparkSession = warehouse.session
    found = session.sql(f"SELECT count(*), {old} FROM {warehouse.name('gold', target)}").first()
    return (0, 0) if found is None else (int(found[0]), int(found[1]))


def _counts(warehouse: Warehouse, layer: str, table: str, query: str) -> dict[str, int]:
    """What `query` counts, by its first column; nothing where the table does not exist."""
    if not warehouse.exists(layer, table):
        return {}
    found = warehouse.session.sql(query.format(table=warehouse.name(layer, table)))
    return {row[0]: int(row[1]) for row in found.collect()}


def _unread_files(warehouse: Warehouse, source: Source) -> int | None:
    if source.files is None:
        return None
    from pipelines.file_lists import is_uri, list_local
    from pipelines.file_log import FileLog

    if is_uri(source.files.path):
        return None
    try:
        listed, _ = list_local(source.name, source.files.path)
    except IngestError:
        return None
    read = FileLog(warehouse.checkpoint("bronze", source.name, "files")).files
    return sum(file.path not in read for file in listed)
