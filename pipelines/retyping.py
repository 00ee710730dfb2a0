"""Events that gold set aside, typed again with today's columns and configuration.

The keys of those that fit now are folded again from history, which changes nothing where it was
done before. What fails again stays, with the attempts counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ingest.casts import sql_text
from ingest.codes import Code
from ingest.fold import Key
from ingest.names import SourceTable
from ingest.order import Pos
from ingest.routes import Route
from ingest.shape import as_text, column, events
from pipelines.backfill import Origin, all_of, refold
from pipelines.ledger import Ledger
from pipelines.moves import also
from pipelines.progress import highest, record
from pipelines.refilling import overwrite, refolded
from pipelines.rejects import create_rejects, log, present, reason
from pipelines.tables import Warehouse
from pipelines.targets import made_for
from pipelines.work import Work

Verdicts = dict[Origin, tuple[str, str] | None]
"""Of rejected events: code and error of why they do not fit, or None: they do."""

_TYPED = {Code.TYPE_MISMATCH.value, Code.NULL_KEY.value}
"""What an event is set aside for when its values are typed."""
_ORIGIN = ("topic", "partition", "offset", "row")


def replay_misfits(ledger: Ledger, route: Route) -> int:
    """Try again what did not fit the target, after its columns have changed; how many fit now."""
    if not ledger.warehouse.exists("gold", "_rejects"):
        return 0
    found = opened(ledger.warehouse, ledger.source, route.target)
    chosen = [row for row in found if row["code"] in _TYPED]
    return replay_target(ledger, chosen, attempt=False)


def replay_target(ledger: Ledger, chosen: list[dict[str, Any]], *, attempt: bool) -> int:
    """Type these open rejects of one target again; how many are resolved.

    `attempt` counts those that fail again.
    """
    if not chosen:
        return 0
    warehouse = ledger.warehouse
    target = chosen[0]["target"]
    routes = {
        table: route
        for name in tables_of(warehouse, ledger.source, chosen)
        if (route := ledger.route(table := ledger.moves.get(name, name))) is not None
        and route.target == target
    }
    made = made_for(warehouse, target)
    found: Verdicts = {}
    if made is not None and made.mode != "scd1":
        for route in list(routes.values())[:1]:
            found = _whole_again(ledger, route, chosen)
    else:
        for table, route in routes.items():
            work = all_of(
                warehouse,
                ledger.config,
                route,
                table,
                lineage=ledger.lineage(table),
                stand=ledger.stands.get((ledger.source, target)),
                also=also(table, ledger.moves),
            )
            found |= _typed_again(ledger, work, chosen) if work is not None else {}
    resolved, again = [], []
    for row in chosen:
        why = found.get(_origin(row), (row["code"], row["error"]))
        later = {**row, "version": row["version"] + 1}
        if why is None:
            resolved.append({**later, "status": "resolved"})
        elif attempt:
            tried = (row["attempts"] or 0) + 1
            again.append({**later, "attempts": tried, "code": why[0], "error": why[1]})
    log(warehouse, [*resolved, *again])
    return len(resolved)


def typed_at_last(work: Work, chosen: Sequence[dict[str, Any]]) -> None:
    """Resolve rejects of changes that the work has applied, now that their target has a key; those
    that do not fit say so from now on."""
    if not chosen:
        return
    try:
        found = {_origin(row.asDict()): row for row in _tried(work, chosen)}
    finally:
        work.forget()
    again = []
    for row in chosen:
        now = found.get(_origin(row))
        if now is not None:
            why = {"code": now["code"], "error": now["error"]}
            said = {"status": "resolved"} if now["fits"] else why
            again.append({**row, **said, "version": row["version"] + 1})
    log(work.warehouse, again)


def _note_orphan(ledger: Ledger, work: Work, pos: Pos) -> None:
    """Remember that a partial image at `pos` waits for its base, as gold does of those it meets."""
    stand = ledger.stands[ledger.source, work.target]
    marks = stand.marks[work.shape.label]
    noted = {work.shape.label: replace(marks, orphans=highest([marks.orphans, pos]))}
    record(ledger.warehouse, [stand.noting(noted)], ledger.stands)


def _whole_again(ledger: Ledger, route: Route, chosen: Iterable[Mapping[str, Any]]) -> Verdicts:
    """As `_typed_again`, for a target of versions or images, which is made anew where some fit."""
    found: Verdicts = {}
    history = refolded(ledger, route)
    if history is None:
        return found
    mine = [row for row in chosen if row["code"] in _TYPED]
    with history as standing:
        for work in standing.works:
            for row in _tried(work, mine):
                why = None if row["fits"] else (row["code"], row["error"])
                found[_origin(row.asDict())] = why
        if None in found.values():
            overwrite(standing)
    return found


def _typed_again(ledger: Ledger, work: Work, chosen: Iterable[Mapping[str, Any]]) -> Verdicts:
    """The verdicts on the events of the work among the rejects, whose keys are folded again."""
    rows = _tried(work, chosen)
    keys: set[Key] = set()
    for row in rows:
        if row["fits"]:
            keys |= {tuple(key) for key in (row["key"], row["key_before"]) if key is not None}
    baseless = refold(work, keys) if keys else {}
    waiting = [place for row in rows if (place := baseless.get(_origin(row.asDict())))]
    if waiting:
        _note_orphan(ledger, work, max(waiting))
    foreign = _foreign(work, keys)
    found: Verdicts = {}
    for row in rows:
        origin = _origin(row.asDict())
        if not row["fits"]:
            found[origin] = row["code"], row["error"]
        elif origin in baseless:
            text = "expected the row that a partial image changes, got none"
            found[origin] = Code.NO_BASE_IMAGE.value, text
        elif row["key"] is not None and tuple(row["key"]) in foreign:
            text = "expected a key that one source table has alone, got one of another's row"
            found[origin] = Code.SHARD_KEY_CONFLICT.value, text
        else:
            found[origin] = None
    return found


def _tried(work: Work, chosen: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The events of the work among the rejects, typed: whether each fits, and why not."""
    session = work.warehouse.session
    wanted = session.createDataFrame(
        [_origin(row) for row in chosen], "topic string, `partition` int, offset bigint, `row` int"
    )
    named = work.view(wanted)
    on = " AND ".join(f"o.{column(name)} = e.{column(name)}" for name in _ORIGIN)
    listed = events(work.shape, work.history("true"))
    keyed = "key IS NOT NULL AND " if work.shape.keys else ""
    return session.sql(
        f"SELECT e.topic, e.`partition`, e.offset, e.`row`, e.key, e.key_before, "
        f"op = 'truncate' OR ({keyed}size(misfits) = 0) AS fits, {reason(work.shape)} "
        f"FROM ({listed}) e JOIN {named} o ON {on}"
    ).collect()


def _foreign(work: Work, keys: set[Key]) -> set[Key]:
    """Those of the keys whose row another source table brought (27)."""
    if not work.shared or not keys:
        return set()
    parts = ", ".join(as_text(column(k), work.shape.columns[k]) for k in work.shape.keys)
    rows = work.warehouse.session.sql(
        f"SELECT array({parts}) FROM {work.target_name} "
        f"WHERE _source_table <> {sql_text(work.shape.label)}"
    ).collect()
    return {tuple(row[0]) for row in rows} & keys


def tables_of(
    warehouse: Warehouse, source: str, chosen: Iterable[Mapping[str, Any]]
) -> list[SourceTable]:
    """The source tables of the rejected events."""
    coordinates = {(row["topic"], row["partition"], row["offset"]) for row in chosen}
    frame = warehouse.session.createDataFrame(
        list(coordinates), "topic string, `partition` int, offset bigint"
    )
    silver = warehouse.read("silver", "cdc").where(
        f"source = {sql_text(source)} AND kind = 'change'"
    )
    rows = silver.join(frame, ["topic", "partition", "offset"], "left_semi")
    return [
        SourceTable(source, *row)
        for row in rows.select("db", "schema", "table").distinct().collect()
    ]


def errors(warehouse: Warehouse, source: str, target: str) -> list[str]:
    """What is said of values that do not fit the target, in its open rejects."""
    found = opened(warehouse, source, target)
    return [row["error"] for row in found if row["code"] == Code.TYPE_MISMATCH.value]


def opened(warehouse: Warehouse, source: str, target: str | None = None) -> list[dict[str, Any]]:
    """The open rejects of gold, in order of place."""
    create_rejects(warehouse)
    where = f"status = 'open' AND stage = 'gold' AND source = {sql_text(source)}"
    if target is not None:
        where += f" AND target = {sql_text(target)}"
    rows = warehouse.session.sql(
        f"SELECT * FROM ({present(warehouse)}) WHERE {where} "
        "ORDER BY topic, `partition`, offset, `row`"
    ).collect()
    return [row.asDict() for row in rows]


def _origin(row: Mapping[str, Any]) -> Origin:
    return row["topic"], row["partition"], row["offset"], row["row"]
