"""`ingest rejects replay`: what was set aside, tried again with today's code and configuration.

Of messages that could not be decoded the bytes stand in bronze. They are decoded once more, and
what they give is appended to silver in one commit, each row at its own position and epoch, as the
next batch of gold. A message that silver has rows of is done: so a replay that was killed is told
from one that never ran, and done twice it does nothing. Events that gold set aside are looked after
by `pipelines.retyping`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.casts import sql_text
from ingest.codes import Code
from ingest.config import Config
from ingest.decode import decode
from ingest.readings import reading
from ingest.sources import Source
from pipelines.gold import Merged, merge_tables
from pipelines.halves import join_halves
from pipelines.leases import lease
from pipelines.ledger import Ledger
from pipelines.progress import load
from pipelines.rejects import DECODE_ID, create_rejects, log, present
from pipelines.retyping import opened, replay_target, tables_of
from pipelines.review import finish
from pipelines.silver import DECODED, INPUT, last_batch
from pipelines.silver_counts import count
from pipelines.tables import Warehouse

_PLACE = ("topic", "partition", "offset")


class Replayed(NamedTuple):
    """What became of the rejects of one stage of one source."""

    stage: str
    source: str
    tried: int
    resolved: int


class Replay(NamedTuple):
    """What one replay did: with the rejects of each stage, and in gold."""

    stages: tuple[Replayed, Replayed]
    merged: list[Merged]


def replay(warehouse: Warehouse, config: Config, source: str, *, code: str | None) -> Replay:
    """Try the open rejects of a source again, those with `code` alone where it is given."""
    if not warehouse.exists("silver", "cdc"):
        return Replay((Replayed("decode", source, 0, 0), Replayed("gold", source, 0, 0)), [])
    with lease(warehouse.checkpoint(), "silver"):
        decoded = _decoded(warehouse, config.sources[source], code)
    merged = merge_tables(warehouse, config, sources=[source]) if decoded.resolved else []
    merged += _made(warehouse, config, source)
    with lease(warehouse.checkpoint(), "gold"):
        typed = _typed(warehouse, config, source, code)
    return Replay((decoded, typed), merged)


def _decoded(warehouse: Warehouse, source: Source, code: str | None) -> Replayed:
    """Decode the open rejects of silver once more."""
    found = _undecoded(warehouse, source.name, code)
    done = [row for row in found if row["done"]]
    tried = [row for row in found if not row["done"]]
    if not found:
        return Replayed("decode", source.name, 0, 0)
    rows = _again(warehouse, source, tried)
    failed = {
        (row["topic"], row["partition"], row["offset"]): (row["error_code"], row["error"])
        for row in rows.where("kind = 'reject'").select(*_PLACE, "error_code", "error").collect()
    }
    kept = {
        (row["topic"], row["partition"], row["offset"]) for row in _held(warehouse, source, tried)
    }
    fits = [row for row in tried if _place(row) in kept and _place(row) not in failed]
    if fits:
        batch = last_batch(warehouse) + 1
        good = _again(warehouse, source, fits).withColumn("batch", F.lit(batch).cast("bigint"))
        warehouse.append(good, "silver", "cdc", once=("silver/replay", batch), note=batch)
        if source.format in ("auto", "dataworks"):
            came = warehouse.read("silver", "cdc").where(F.col("batch") == batch)
            once = ("silver/replay/pairs", batch)
            join_halves(warehouse, source.name, batch, count(came), once=once)
    versions = [_version(row, status="resolved") for row in (*done, *fits)]
    for row in tried:
        if row not in fits:
            told = failed.get(_place(row), (row["code"], row["error"]))
            versions.append(
                _version(row, code=told[0], error=told[1], attempts=row["attempts"] + 1)
            )
    log(warehouse, versions)
    return Replayed("decode", source.name, len(found), len(fits) + len(done))


def _undecoded(warehouse: Warehouse, source: str, code: str | None) -> list[dict[str, Any]]:
    """The open rejects of silver in order of place; `done`: silver has rows of the message."""
    create_rejects(warehouse)
    silver = warehouse.name("silver", "cdc")
    own = f"source = {sql_text(source)}"
    said = "coalesce(r.code, s.error_code)"
    where = f"coalesce(r.status, 'open') = 'open' AND {said} <> {sql_text(_SHARDS)}"
    if code is not None:
        where += f" AND {said} = {sql_text(code)}"
    # Silver has an `id` of its own: the message's.
    rejected = (
        f"SELECT {DECODE_ID} AS reject, topic, `partition`, offset, `row`, error_code, error "
        f"FROM {silver} WHERE {own} AND kind = 'reject'"
    )
    rows = warehouse.session.sql(
        f"""SELECT s.reject AS id, s.topic, s.`partition`, s.offset, s.`row`, {said} AS code,
  coalesce(r.error, s.error) AS error, coalesce(r.attempts, 0) AS attempts,
  coalesce(r.version, 0) AS version, max(d.offset) IS NOT NULL AS done
FROM ({rejected}) s LEFT JOIN ({present(warehouse)}) r ON r.id = s.reject
LEFT JOIN (SELECT topic, `partition`, offset FROM {silver} WHERE {own} AND kind <> 'reject') d
  ON d.topic = s.topic AND d.`partition` = s.`partition` AND d.offset = s.offset
WHERE {where} GROUP BY ALL ORDER BY topic, `partition`, offset"""
    ).collect()
    return [{**row.asDict(), "source": source} for row in rows]


_SHARDS = Code.FRAGMENT_INCOMPLETE.value
"""A message that lacks others: it is whole when they come, and decoding it anew brings nothing."""


def _held(warehouse: Warehouse, source: Source, wanted: list[dict[str, Any]]) -> list[Any]:
    return _messages(warehouse, source, wanted).select(*_PLACE).collect()


def _again(warehouse: Warehouse, source: Source, wanted: list[dict[str, Any]]) -> DataFrame:
    """The silver rows that the messages are today."""
    run = decode({source.name: reading(source)})
    messages = _messages(warehouse, source, wanted).select(*INPUT)
    return messages.sortWithinPartitions(*_PLACE).mapInArrow(run, DECODED)


def _messages(warehouse: Warehouse, source: Source, wanted: list[dict[str, Any]]) -> DataFrame:
    places = warehouse.session.createDataFrame(
        [_place(row) for row in wanted], "topic string, `partition` int, offset bigint"
    )
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    return bronze.join(F.broadcast(places), list(_PLACE), "left_semi")


def _version(row: dict[str, Any], **now: Any) -> dict[str, Any]:
    return {
        **{
            name: row[name]
            for name in ("id", "source", *_PLACE, "row", "code", "error", "attempts")
        },
        "stage": "decode",
        "target": None,
        "value": None,
        "status": "open",
        **now,
        "at": datetime.now(UTC),
        "version": row["version"] + 1,
    }


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _made(warehouse: Warehouse, config: Config, source: str) -> list[Merged]:
    """Targets that could not be made for want of a key, made where there is one now."""
    if not warehouse.exists("gold", "_rejects"):
        return []
    waiting = {
        row["target"] for row in opened(warehouse, source) if row["code"] == Code.NO_KEY.value
    }
    lacking = sorted(target for target in waiting if not warehouse.exists("gold", target))
    if not lacking:
        return []
    return merge_tables(warehouse, config, sources=[source], targets=lacking)


def _typed(warehouse: Warehouse, config: Config, source: str, code: str | None) -> Replayed:
    """Type the open rejects of gold once more."""
    if not warehouse.exists("gold", "_rejects"):
        return Replayed("gold", source, 0, 0)
    found = [row for row in opened(warehouse, source) if code in (None, row["code"])]
    ledger = Ledger(warehouse, config, source, load(warehouse))
    resolved = 0
    for target in dict.fromkeys(row["target"] for row in found):
        own = [row for row in found if row["target"] == target]
        _grow(ledger, own)
        resolved += replay_target(ledger, own, attempt=True)
    return Replayed("gold", source, len(found), resolved)


def _grow(ledger: Ledger, chosen: list[dict[str, Any]]) -> None:
    """Let the target of these rejects have the types that are declared for it today."""
    for table in tables_of(ledger.warehouse, ledger.source, chosen):
        route = ledger.route(table)
        if route is not None and route.target == chosen[0]["target"]:
            ledger.drift.declared(table, route)
    ledger.save()
    for entry in ledger.unfinished():
        finish(ledger, entry)
