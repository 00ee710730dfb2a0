"""Events that gold set aside, typed again with today's columns and configuration.

The keys of the events that fit now are folded again from history; if that was done before, it
changes nothing. Events that still do not fit stay rejects, with the attempts counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ingest.codes import Code
from ingest.config.routes import Route
from ingest.fold.arrow import origin_of
from ingest.fold.fold import Key, Origin
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.delivery import DELIVERY_TYPES, MESSAGE, MESSAGE_TYPES
from ingest.sql.fold.late_keys import those_held
from ingest.sql.projection import events
from ingest.sql.query import select
from ingest.sql.quoting import equal, quoted_list
from ingest.sql.rejects import retyped
from ingest.sql.rejects.rows import (
    BASELESS_ERROR,
    CONFLICT_ERROR,
    MISFIT,
    is_open,
    page_of,
    targets_with,
)
from pipelines.apply import bounds
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.watermarks import watermarks_of_history
from pipelines.gold.refold import (
    all_of,
    applied_history,
    baseless,
    note_reordered,
    note_rewritten,
    overwrite_rows,
    refold,
)
from pipelines.ledger.store import Ledger
from pipelines.platform.rows import rows as found_rows
from pipelines.platform.rows import temporary_view
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Watermarks, record_progress
from pipelines.targets.rejects import REJECTS, change_rejects, create_rejects, table_of
from pipelines.targets.table import contract_of


class Reason(NamedTuple):
    """Why an event is set aside, as REJECTS has it."""

    code: str
    error: str
    misfits: Any = None


Verdicts = dict[Origin, Reason | None]
"""Rejected events -> why they do not fit; None: they do."""

_SETTLED_BY_FOLD = {Code.NO_BASE_IMAGE.value, Code.NO_KEY.value}
"""Codes of rejects that are in the rows as soon as what they lacked has come."""
_OF_COLUMNS = {code.value for code in (*MISFIT, Code.ORDER_KEY_MISSING)}
"""Codes of rejects that may be resolved once the target's columns are others."""
_BASELESS = Reason(Code.NO_BASE_IMAGE.value, BASELESS_ERROR)
_CONFLICT = Reason(Code.SHARD_KEY_CONFLICT.value, CONFLICT_ERROR)
MOST = 20_000
"""How many rejects are in the driver at a time, without their bytes. Their changes have
`bounds.BYTES` at most, which bounds the bytes of their keys, unless a single one has more."""


def replay_misfits(ledger: Ledger, route: Route) -> int:
    """Try again, after the target's columns have changed, the events that did not fit or had no
    value to order them by; gives how many fit now."""
    if not ledger.warehouse.exists("gold", "_rejects"):
        return 0

    def replayed(code: str) -> int:
        return replay_target(ledger, route.target, code=code, attempt=False).resolved

    fit = sum(map(replayed, sorted(_OF_COLUMNS)))
    # An event that fits now may be the base that a partial image waits for.
    return fit + (replayed(Code.NO_BASE_IMAGE.value) if fit else 0)


class Tried(NamedTuple):
    """How many open rejects were typed again, how many of them are resolved, and whether the target
    was made anew for them."""

    tried: int = 0
    resolved: int = 0
    made_anew: bool = False


def replay_target(
    ledger: Ledger,
    target: str,
    *,
    code: str | None,
    attempt: bool,
    begin: Callable[[list[dict[str, Any]]], None] = lambda _: None,
) -> Tried:
    """Type the open rejects of a target again, those with a code where one is given.

    `attempt` counts those that fail again. `begin` is given the first of them, before they are
    typed.
    """
    done = Tried()
    for number, part in enumerate(_opened(ledger.warehouse, ledger.source, target, code=code)):
        if not number:
            begin(part)
        # A target that was made anew has all events that fit.
        found = _replay(ledger, part, attempt=attempt, made_anew=done.made_anew)
        done = Tried(done.tried + len(part), done.resolved + found.resolved, found.made_anew)
    return done


def _replay(
    ledger: Ledger, chosen: list[dict[str, Any]], *, attempt: bool, made_anew: bool
) -> Tried:
    """Type some rejects of a target again, and write what came of each."""
    verdicts, made_anew = _judged_again(ledger, chosen, made_anew=made_anew)
    resolved, now = 0, []
    for row in chosen:
        why = verdicts.get(origin_of(row), _reason(row))
        same = row["id"], row["version"]
        if why is None:
            now.append((*same, "resolved", *_reason(row), row["attempts"]))
            resolved += 1
        elif attempt or why.code != row["code"]:
            now.append((*same, "open", *why, (row["attempts"] or 0) + attempt))
    if now:
        _change_status(ledger.warehouse, now)
    return Tried(len(chosen), resolved, made_anew)


def _judged_again(
    ledger: Ledger, chosen: list[dict[str, Any]], *, made_anew: bool
) -> tuple[Verdicts, bool]:
    """The verdicts on the rejected events of a target, whose rows are folded again with those that
    fit; and whether the whole target was made anew by then (`made_anew`: or before)."""
    warehouse, target = ledger.warehouse, chosen[0]["target"]
    routes = {
        table: route
        for name in tables_of(warehouse, ledger.source, chosen)
        if (route := ledger.route(table := ledger.first_name(name))) is not None
        and route.target == target
    }
    verdicts: Verdicts = {}
    contract = contract_of(warehouse, target)
    if contract is not None and not contract.keeps.latest:
        for route in list(routes.values())[:1]:
            verdicts, made_anew = _made_anew(ledger, route, chosen, made_anew=made_anew)
        return verdicts, made_anew
    for table, route in routes.items():
        batch = all_of(ledger, route, table)
        if batch is None:
            continue
        with Frames(warehouse) as frames:
            found = _typed_again(frames, ledger, batch, chosen=chosen)
        verdicts |= found
        if batch.projection.sequence and None in found.values():
            # The statistics did not count changes that had no place in that order.
            _note(ledger, batch, watermarks_of_history(batch))
    return verdicts, made_anew


def _change_status(warehouse: Warehouse, now: Sequence[tuple[Any, ...]]) -> None:
    types = dict(REJECTS)
    names = ("id", "version", "status", "code", "error", "misfits", "attempts")
    kinds = ", ".join(f"{name} {types[name]}" for name in names)
    with temporary_view(warehouse.session.createDataFrame(now, kinds)) as view:
        change_rejects(warehouse, select(view))


def typed_at_last(warehouse: Warehouse, batch: TableBatch) -> None:
    """Resolve the rejects of changes that the batch has applied and that were set aside because the
    target had no key. Those that do not fit say so from now on. No change comes to the driver."""
    create_rejects(warehouse)
    wanted = is_open(batch.projection.source, batch.target, Code.NO_KEY.value)
    own = select(table_of(warehouse), wanted)
    rows = retyped.as_changes(_tried(batch, own, rejects=True))
    if not warehouse.session.sql(rows).isEmpty():
        change_rejects(warehouse, rows)


def _save_last_baseless(ledger: Ledger, batch: TableBatch, pos: Pos) -> None:
    """Remember that a partial image at `pos` waits for its base, as a batch does with those it
    meets."""
    progress = ledger.progress_by_target[ledger.source, batch.target]
    _note(ledger, batch, progress.watermarks[batch.projection.label].with_baseless(pos))


def _note(ledger: Ledger, batch: TableBatch, watermarks: Watermarks) -> None:
    """Record what gold remembers of the batch's source table from now on."""
    progress = ledger.progress_by_target[ledger.source, batch.target]
    noted = progress.with_watermarks({batch.projection.label: watermarks})
    record_progress(ledger.warehouse, [noted], ledger.progress_by_target)


def _made_anew(
    ledger: Ledger, route: Route, chosen: Iterable[Mapping[str, Any]], *, made_anew: bool
) -> tuple[Verdicts, bool]:
    """As `_typed_again`, for a target that keeps versions or images: if some events fit, the whole
    target is made anew, unless that was done before (`made_anew`). Gives also whether it has been
    made anew by then."""
    verdicts: Verdicts = {}
    history = applied_history(ledger, route)
    if history is None:
        return verdicts, made_anew
    mine = [row for row in chosen if row["code"] in _OF_COLUMNS | _SETTLED_BY_FOLD]
    of_columns = {origin_of(row) for row in mine if row["code"] in _OF_COLUMNS}
    with history as reconstruction:
        for batch in reconstruction.batches:
            rows = _verdicts(reconstruction.frames, batch, mine)
            versions = reconstruction.contract.keeps.versions
            fit = [origin_of(row.asDict()) for row in rows if row["fits"]]
            keys = _keys(rows) if versions else ()
            waiting = baseless(reconstruction.frames, batch, keys, asked=fit)
            for row in rows:
                origin = origin_of(row.asDict())
                verdicts[origin] = None if row["fits"] else _reason(row)
                if origin in waiting:
                    verdicts[origin] = _BASELESS
            if waiting:
                _save_last_baseless(ledger, batch, max(waiting.values()))
        some_fit = any(verdicts[origin] is None for origin in of_columns & verdicts.keys())
        if some_fit and not made_anew:
            # The caller notes which rejects are resolved by that.
            note_rewritten(reconstruction, ledger.progress_by_target, {})
            reconstruction.tried(partial(overwrite_rows, reconstruction))
            note_reordered(reconstruction, ledger.progress_by_target)
    return verdicts, made_anew or some_fit


def _typed_again(
    frames: Frames, ledger: Ledger, batch: TableBatch, *, chosen: Iterable[Mapping[str, Any]]
) -> Verdicts:
    """The verdicts on those rejected events that are of the batch's source table. The keys of the
    events that fit are folded again."""
    rows = _verdicts(frames, batch, chosen)
    keys = _keys(rows)
    others_keys = _keys_of_others(frames, batch, keys)
    keys -= others_keys
    asked = [origin_of(row.asDict()) for row in rows if row["fits"]]
    without_base = refold(frames, batch, keys, asked=asked) if keys else {}
    if without_base:
        _save_last_baseless(ledger, batch, max(without_base.values()))
    verdicts: Verdicts = {}
    for row in rows:
        origin = origin_of(row.asDict())
        if not row["fits"]:
            verdicts[origin] = _reason(row)
        elif origin in without_base:
            verdicts[origin] = _BASELESS
        elif row["key"] is not None and tuple(row["key"]) in others_keys:
            verdicts[origin] = _CONFLICT
        else:
            verdicts[origin] = None
    return verdicts


def _keys(rows: Iterable[Any]) -> set[Key]:
    """The keys of the events that fit."""
    named = (key for row in rows if row["fits"] for key in (row["key"], row["key_before"]))
    return {tuple(key) for key in named if key is not None}


def _verdicts(frames: Frames, batch: TableBatch, chosen: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Those rejected events that are of the batch's source table, typed: whether each fits, and why
    not."""
    session = frames.warehouse.session
    wanted = session.createDataFrame([origin_of(row) for row in chosen], DELIVERY_TYPES)
    return frames.sql(_tried(batch, select(frames.view(wanted)))).collect()


def _tried(batch: TableBatch, wanted: str, *, rejects: bool = False) -> str:
    """SQL of those events of the batch that the relation `wanted` names, typed. If it is one of
    `rejects`, what it says of each is there too."""
    changes = events(batch.projection, batch.history("true"))
    return retyped.typed_again(batch.projection, changes, wanted, rejects=rejects)


def _keys_of_others(frames: Frames, batch: TableBatch, keys: set[Key]) -> set[Key]:
    """Those of the keys whose row another source table brought (27)."""
    if not batch.shared or not keys:
        return set()
    named = frames.key_view(sorted(keys))
    others = those_held(batch.held_by_others, keys=named)
    rows = frames.sql(others).collect()
    return {tuple(row[0]) for row in rows}


def tables_of(
    warehouse: Warehouse, source: str, chosen: Iterable[Mapping[str, Any]]
) -> list[SourceTable]:
    """The source tables of the rejected events."""
    messages = {tuple(row[name] for name in MESSAGE) for row in chosen}
    frame = warehouse.session.createDataFrame(list(messages), MESSAGE_TYPES)
    silver = warehouse.read("silver", "cdc").where(equal(source=source, kind="change"))
    rows = silver.join(frame, list(MESSAGE), "left_semi")
    return [
        SourceTable(source, *row)
        for row in rows.select("db", "schema", "table").distinct().collect()
    ]


def outgrowing(warehouse: Warehouse, source: str, target: str) -> dict[str, list[str]]:
    """For each column of the target, those numbers among the misfits of its open rejects that need
    the widest type: the longest before and behind the point, the smallest and the largest."""
    most = retyped.numbers_that_ask_most(table_of(warehouse), source=source, target=target)
    numbers = warehouse.session.sql(most)
    return {
        column: [text for text in dict.fromkeys(texts) if text is not None]
        for column, texts in found_rows(numbers)
    }


def waiting_targets(warehouse: Warehouse, source: str, code: str | None) -> list[str]:
    """The targets with open rejects, with `code` where one is given."""
    create_rejects(warehouse)
    targets = targets_with(table_of(warehouse), source=source, code=code)
    rows = warehouse.session.sql(targets).collect()
    return sorted(row["target"] for row in rows)


def _opened(
    warehouse: Warehouse, source: str, target: str, *, code: str | None
) -> Iterator[list[dict[str, Any]]]:
    """The open rejects of a target, MOST and `bounds.BYTES` at a time, without the bytes."""
    create_rejects(warehouse)
    names = quoted_list(name for name, _ in REJECTS if name != "value")
    last = ""
    while True:
        page = page_of(
            table_of(warehouse),
            source=source,
            target=target,
            code=code,
            columns=names,
            after=last,
            most=MOST,
            bytes_most=bounds.BYTES,
        )
        rows = warehouse.session.sql(page).collect()
        if not rows:
            return
        last = rows[-1]["id"]
        yield [row.asDict() for row in rows]


def _reason(row: Any) -> Reason:
    return Reason(row["code"], row["error"], row["misfits"])
