"""The exact fold over Arrow batches, for any number of keys.

`judge_rows` and `judge_versions` take a batch's events with what is stored of their keys. For each
key they give either the states that the batch leads to, or the result that the key is late.
`fold_history` takes the history of late keys and gives their states: for rows the last one of each
key, for versions all of them. All three read rows sorted by `component`: keys that key changes link
share one, so that they fold together (semantics.md, 40). Whether a state begins a version is
decided once its values are typed (`ingest.sql.fold.scd2`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from ingest.fold.fold import (
    Change,
    Folded,
    Key,
    Origin,
    State,
    Step,
    fold,
    steps,
)
from ingest.fold.lateness import History, LatenessBounds, classify, classify_versions
from ingest.fold.truncates import Truncates
from ingest.position import Pos, in_sequence, reaches
from ingest.sql.delivery import MESSAGE
from ingest.sql.quoting import typed_columns
from ingest.values.arrow_types import arrow_schema

RESULTS = (
    ("kind", "string"),
    ("key", "array<string>"),
    ("row", "map<string,string>"),
    ("gone", "boolean"),
    ("whole", "boolean"),
    ("sets", "array<string>"),
    ("pos", "array<bigint>"),
    ("event_time", "bigint"),
    ("label", "string"),
    ("deleted_at", "bigint"),
    ("epoch", "bigint"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("place", "int"),
    ("stale", "bigint"),
)
"""The columns of a result. Kinds: `state` of a key; `late` and `doubtful` keys (pos: their lowest
event; whole: none of their images is partial); `baseless` partial images, by key and coordinates;
`passed` and `stale`: keys that gold rightly leaves alone, entirely or in part; `unfit`: some events
do not fit. A doubtful key has its state as well."""
OUTPUT = typed_columns(RESULTS)
SCHEMA = arrow_schema(RESULTS)
ORIGIN = (*MESSAGE, "place")
"""The columns of a delivery in results; its `row` is called `place`, since `row` is the row that a
state leaves."""
_ROWS_OUT = 2_000
Rows = Iterator[tuple[Any, ...]]
Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def judge_rows(
    *,
    soft: bool,
    by_arrival: bool,
    fresh: bool,
    bounds: LatenessBounds,
    truncates: Sequence[Change] = (),
) -> Run:
    """The function for `mapInArrow` over the events of a batch, each with the `stored` position of
    its row and whether it `fits`: it has a key and no misfits.

    `fresh`: nothing is stored yet, so the batch is the whole history. `truncates`: all there have
    been. With `soft` deletes, what lies below a truncate still counts.
    """

    all_truncates = Truncates.of(truncates)

    def results(events: list[dict[str, Any]]) -> Rows:
        changes = [_change_of(event, by_arrival=by_arrival) for event in events if event["fits"]]
        yield from _unfit(events)
        if not changes:
            return
        stored = _pos(events[0]["stored"])
        marked, of_another = bool(events[0]["marked"]), bool(events[0]["of_another"])
        verdict = classify(changes, stored, bounds, marked=marked, of_another=of_another)
        if any(
            all_truncates.stand_beside(change) or (soft and all_truncates.void(change))
            for change in changes
        ):
            verdict = verdict._replace(late=True)
        key = list(changes[0].key or ())
        fields = {"pos": list(verdict.lowest), "whole": not any(c.partial for c in changes)}
        if verdict.late:
            for name in _keys(changes):
                yield result("late", key=list(name), **fields)
            return
        if verdict.doubtful:
            yield result("doubtful", key=key, **fields)
        if verdict.stale or verdict.passed:
            yield result("passed" if verdict.passed else "stale", stale=verdict.stale)
        newer = [change for change in changes if stored is None or change.pos > stored]
        yield from _states(fold(newer, soft=soft, base=not fresh))

    return grouped(results)


def judge_versions(
    *,
    by_arrival: bool,
    bounds: LatenessBounds,
    truncates: Sequence[Change],
    new_truncates: Sequence[Change],
    again: bool,
) -> Run:
    """The function for `mapInArrow` over the events of a batch, each with `stored` (the newest pos
    of its key's versions), `opened` (that of the open one) and whether it `fits`.

    `new_truncates` are those of the batch, `truncates` all there have been. `again`: events of the
    batch may have been applied before without being recorded.
    """

    all_truncates = Truncates.of(truncates)

    def results(events: list[dict[str, Any]]) -> Rows:
        changes = [_change_of(event, by_arrival=by_arrival) for event in events if event["fits"]]
        yield from _unfit(events)
        if not changes:
            return
        newest, opened = _pos(events[0]["stored"]), _pos(events[0]["opened"])
        key = changes[0].key
        assert key is not None
        ends = [
            end_of(truncate, key)
            for truncate in new_truncates
            if opened and ends_version(truncate, opened)
        ]
        stored = History(
            newest,
            opened=opened is not None and not ends,
            ended=again and newest is not None and opened is None,
            truncates=all_truncates,
        )
        verdict = classify_versions(changes, stored, bounds)
        if verdict.late:
            for name in _keys(changes):
                yield result("late", key=list(name), pos=list(verdict.lowest))
            return
        if verdict.doubtful:
            yield result("doubtful", key=list(key), pos=list(verdict.lowest))
        taken = steps([*ends, *verdict.newer], base=opened is not None)
        yield from (_version(step) for step in taken if isinstance(step, Step))

    return grouped(results)


def fold_history(
    *, soft: bool, by_arrival: bool, truncates: Sequence[Change] = (), versions: bool = False
) -> Run:
    """The function for `mapInArrow` over the history of keys: their last states, or with `versions`
    every state they had.

    `truncates` are those of the source tables concerned; they reach every component.
    """

    all_truncates = Truncates.of(truncates)

    def results(events: list[dict[str, Any]]) -> Rows:
        changes = [_change_of(event, by_arrival=by_arrival) for event in events]
        changes += all_truncates.next_after(changes)
        if not versions:
            yield from _states(fold(changes, soft=soft))
            return
        taken = list(steps(changes, soft=soft))
        yield from (_version(step) for step in taken if isinstance(step, Step))
        yield from (_result_of_baseless(step) for step in taken if isinstance(step, Change))

    return grouped(results)


def ends_version(truncate: Change, opened: Pos) -> bool:
    """Whether a truncate ends the version that began at `opened`."""
    return reaches(truncate.pos, opened, by_arrival=truncate.by_arrival)


def end_of(truncate: Change, key: Key) -> Change:
    """What a truncate means for one key."""
    return truncate._replace(op="delete", key=key)


def _pos(stored: Sequence[int] | None) -> Pos | None:
    return tuple(stored) if stored is not None else None


def _keys(changes: Iterable[Change]) -> list[Key]:
    """The keys of late changes, and the keys that they took from a row. The old key of an insert is
    left out if its delete tells of it, which may be still to come."""
    names = {change.key for change in changes}
    moving = (c for c in changes if c.op != "insert" or in_sequence(c.pos))
    names |= {change.key_before for change in moving}
    return sorted(name for name in names if name is not None)


def _unfit(events: Iterable[Mapping[str, Any]]) -> Rows:
    """The results for events that do not fit. If one of them is the insert of a key change in two
    messages, its row stays under the old key, from which the delete may have taken it: so that key
    is late."""
    unfit = [event for event in events if not event["fits"]]
    if unfit:
        yield result("unfit")
    for event in unfit:
        if event["op"] == "insert" and event["key_before"] is not None:
            yield result("late", key=event["key_before"], pos=event["pos"], whole=False)


def grouped(results: Callable[[list[dict[str, Any]]], Rows]) -> Run:
    """The function for `mapInArrow` that gives `results` of the events of each component."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        for _, group in groupby(_events(batches), key=lambda event: event["component"]):
            rows.extend(results(list(group)))
            if len(rows) >= _ROWS_OUT:
                yield _batch(rows)
                rows = []
        yield _batch(rows)

    return run


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _change_of(event: dict[str, Any], *, by_arrival: bool) -> Change:
    """A row of `ingest.sql.projection.events` as a change for the fold."""
    key, before = event["key"], event["key_before"]
    image = event["image"]
    return Change(
        op=event["op"],
        pos=tuple(event["pos"]),
        table=event["label"],
        key=tuple(key) if key is not None else None,
        key_before=tuple(before) if before is not None else None,
        image=dict(image) if image is not None else None,
        before=dict(event["before"]) if event["before"] is not None else None,
        partial=event["partial"],
        event_time=event["event_time"],
        transaction=event["tx"],
        digest=event["digest"],
        by_arrival=by_arrival,
        origin=origin_of(event),
        void=event.get("void", False),
    )


def origin_of(event: Mapping[str, Any]) -> Origin:
    """The origin of a row that has the columns of a delivery."""
    return event["epoch"], event["topic"], event["partition"], event["offset"], event["row"]


def _states(folded: Folded) -> Rows:
    states = dict(folded.states)
    for change in folded.baseless:
        # If it made a row once, when it had a base, that row goes.
        if change.key is not None:
            none = State(None, change.pos, change.table, change.event_time)
            states.setdefault(change.key, none)
    yield from (_result_of_state(key, state) for key, state in states.items())
    yield from map(_result_of_baseless, folded.baseless)


def _version(step: Step) -> tuple[Any, ...]:
    """A result `state` for a version, which begins at the change that made it."""
    state, change = step.state, step.gives_back
    if change is not None:
        state = state._replace(pos=change.pos, event_time=change.event_time)
    return _result_of_state(step.key, state)


def _result_of_state(key: Key, state: State) -> tuple[Any, ...]:
    """A row `state`."""
    row = state.row
    return result(
        "state",
        key=list(key),
        row=list(row.items()) if row is not None else None,
        gone=row is None,
        whole=state.insertable,
        sets=list(row) if state.keeps and row is not None else None,
        pos=list(state.pos),
        event_time=state.event_time,
        label=state.table,
        deleted_at=state.deleted_at,
    )


def _result_of_baseless(change: Change) -> tuple[Any, ...]:
    """A row `baseless`."""
    origin = dict(zip(ORIGIN, change.origin or (None,) * len(ORIGIN), strict=True))
    return result(
        "baseless",
        key=list(change.key) if change.key is not None else None,
        pos=list(change.pos),
        label=change.table,
        **origin,
    )


def result(kind: str, **given: Any) -> tuple[Any, ...]:
    """A row of RESULTS; what is not given is null."""
    return (kind, *(given.get(name) for name in SCHEMA.names[1:]))


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
