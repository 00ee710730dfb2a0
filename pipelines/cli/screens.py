"""What people see of `run`, `status`, `ddl list`, `rejects list`, `history`, `inspect`, `formats`.

Each screen is made of the rows that `--json` prints, and shows what a person asks of them: ids as
short as they are unique, one state instead of several flags, times as ages. Columns in which
nothing stands are left out; positions and what else is the product's own come with `--verbose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ingest.config.modes import TargetContract
from pipelines.reporting.states import source_state, table_state
from pipelines.terminal.console import Console, cell
from pipelines.terminal.layout import Column, Kind, Where, without_empty

ID_LETTERS = 8
"""Of an id, at least: so that it stays one's alone as others come."""
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


class Shown(NamedTuple):
    """A column of a screen, and the cells below it."""

    column: Column
    cells: list[str]


def show(console: Console, shown: Iterable[Shown], *, nothing: str) -> None:
    """Print a screen without its empty columns; the sentence `nothing` where it has no rows."""
    every = list(shown)
    rows = [list(row) for row in zip(*(each.cells for each in every), strict=True)]
    if not rows:
        console.text(nothing)
        return
    console.table(*without_empty([each.column for each in every], rows))


def age(then: datetime, now: datetime) -> str:
    """How long ago something was, in its largest unit: `3 min`, `2 h`, `41 d`, from two years on
    `2 y`."""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, size, least in (
        ("y", _YEAR, 2),
        ("d", _DAY, 1),
        ("h", _HOUR, 1),
        ("min", _MINUTE, 1),
    ):
        if seconds >= least * size:
            return f"{seconds // size:,} {unit}"
    return f"{seconds} s"


def behind(then: Any, now: datetime) -> str:
    """How far behind the clock the newest change of a table is: `3 min behind`."""
    if not isinstance(then, datetime):
        return cell(then)
    return f"{age(then if then.tzinfo else then.replace(tzinfo=UTC), now)} behind"


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id's beginning that is its alone, of at least ID_LETTERS, also `among` others."""
    wanted = set(ids)
    every = sorted({*wanted, *among})
    found = {}
    for index, id_ in enumerate(every):
        if id_ in wanted:
            beside = (*every[max(0, index - 1) : index], *every[index + 1 : index + 2])
            shared = max((_shared(id_, other) for other in beside), default=0)
            found[id_] = id_[: max(ID_LETTERS, shared + 1)]
    return found


def _shared(one: str, other: str) -> int:
    """How many letters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def ran_sources(rows: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> list[Shown]:
    """The sources of a run of these stages."""
    counts = {"bronze": ("messages",), "silver": ("rows", "rejects")}
    return [
        _names("source", rows),
        *(
            _counts(name, rows, always=name != "rejects")
            for stage in stages
            for name in counts.get(stage, ())
        ),
        _texts("error", rows),
    ]


def ran_tables(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The target tables of a run. What a MERGE updated is called what it was: versions that it
    ended, or rows that it updated, and marked among them where deletes are soft."""
    words = [_updates(row["contract"]) for row in rows]

    def done(key: str, name: str, *, word: str | None = None) -> Shown:
        """What was done to some tables; to those alone that have this `word` for it."""
        counts = [
            row[key] if word in (None, of) else 0 for row, of in zip(rows, words, strict=True)
        ]
        cells = [f"{count:,}" if count else "" for count in counts]
        return Shown(Column(name, Kind.COUNT, Where.FOLDED), cells)

    return [
        _names("table", rows),
        _names("source", rows, where=Where.LEFT_OUT),
        _counts("events", rows, always=True),
        done("inserted", "inserted"),
        *(done("updated", word, word=word) for word in ("updated", "updated or marked", "ended")),
        *(done(name, name) for name in ("deleted", "late", "stale", "rejected")),
        Shown(
            Column("seconds", Kind.COUNT, Where.LEFT_OUT), [cell(row["seconds"]) for row in rows]
        ),
        _texts("error", rows),
    ]


def _updates(contract: TargetContract | None) -> str:
    """What the rows that a MERGE updated are in a target of this kind."""
    if contract is not None and contract.keeps.versions:
        return "ended"
    return "updated or marked" if contract is not None and contract.deletes == "soft" else "updated"


def sources(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The sources of `status`."""
    return [
        _names("source", rows),
        Shown(Column("state", Kind.STATE), [source_state(row) for row in rows]),
        _counts("messages", rows, always=True),
        _counts("lag", rows, name="to decode"),
        _waits(rows),
        _counts("unread_files", rows, name="files to read"),
        _counts("unread_messages", rows, name="to read"),
        _counts("rejects", rows),
        _counts("stepped_back", rows, name="stepped back"),
        _counts("gaps", rows),
    ]


def tables(rows: Sequence[Mapping[str, Any]], *, now: datetime, verbose: bool) -> list[Shown]:
    """The target tables of `status`."""
    freshness = [behind(row["freshness"], now) for row in rows]
    shown = [
        _names("table", rows),
        _names("source", rows),
        Shown(Column("state", Kind.STATE), [table_state(row) for row in rows]),
        _counts("rows", rows, always=True),
        Shown(Column("freshness", Kind.COUNT), freshness),
        _waits(rows),
        _counts("late", rows, where=Where.LEFT_OUT),
        Shown(Column("keeps", Kind.NAME, Where.BELOW), [_kept(row["mode"]) for row in rows]),
        Shown(Column("masks", Kind.NAME, Where.BELOW), [", ".join(row["masks"]) for row in rows]),
        Shown(Column("merged", Kind.NAME, Where.BELOW), [_merges(row, now) for row in rows]),
        _texts("error", rows),
    ]
    if verbose:
        shown += [
            _names("freshness", rows, name="last event"),
            _names("last_pos", rows, name="last position"),
            _counts("waiting", rows, name="changes that wait"),
            _counts("rows_of_old_epochs", rows, name="rows of old epochs"),
        ]
    return shown


def _kept(mode: str | None) -> str:
    """What a target keeps, where that is not the newest row of each key."""
    return {None: "", "1": "", "2": "versions"}.get(mode, str(mode))


def _merges(row: Mapping[str, Any], now: datetime) -> str:
    """How often a target is merged that waits between merges, and when what waits is next."""
    if row["merge_every"] is None:
        return ""
    due = row["next_merge"]
    if not isinstance(due, datetime):
        return f"every {row['merge_every']}"
    due = due if due.tzinfo else due.replace(tzinfo=UTC)
    coming = f"next in {age(now, due)}" if due > now else "now due"
    return f"every {row['merge_every']}, {coming}"


def schema_changes(
    rows: Sequence[Mapping[str, Any]], among: Iterable[str], *, verbose: bool
) -> list[Shown]:
    """The ledger, as `ddl list` shows it; `among`: all its ids."""
    ids = short_ids((row["id"] for row in rows), among)
    targets = [row["target"] or ".".join(filter(None, map(row.get, _NAMES))) for row in rows]
    shown = [
        Shown(Column("id"), [row["id"] if verbose else ids[row["id"]] for row in rows]),
        Shown(Column("state", Kind.STATE), [row["status"] for row in rows]),
        _names("class", rows),
        _names("kind", rows),
        _names("source", rows, where=Where.LEFT_OUT),
        Shown(Column("table"), targets),
        _counts("waiting_rows", rows, name="waiting"),
        _texts("statement", rows),
        _texts("proposed", rows),
    ]
    if verbose:
        shown += [_texts("why", rows), _names("decided_by", rows), _names("decided_at", rows)]
        shown += [_names("event_time", rows), _names("pos", rows)]
    return shown


_NAMES = ("db", "schema", "table")


def rejects(
    rows: Sequence[Mapping[str, Any]], among: Iterable[str], *, verbose: bool
) -> list[Shown]:
    """What was set aside, as `rejects list` shows it; `among`: ids that begin alike."""
    ids = short_ids((row["id"] for row in rows), among)
    return [
        Shown(Column("id"), [row["id"] if verbose else ids[row["id"]] for row in rows]),
        Shown(Column("state", Kind.STATE), [cell(row["status"]) for row in rows]),
        _names("code", rows),
        _names("stage", rows, where=Where.LEFT_OUT),
        _names("source", rows),
        _names("target", rows, name="table"),
        _messages_of(rows, verbose=verbose),
        _texts("error", rows),
    ]


def _messages_of(rows: Sequence[Mapping[str, Any]], *, verbose: bool) -> Shown:
    """Where the messages of rows came from: `topic 0:17`, partition and offset."""
    kind = Kind.NAME if verbose else Kind.PATH
    return Shown(Column("message", kind), [coordinates(row) for row in rows])


def coordinates(row: Mapping[str, Any]) -> str:
    """Where a message came from: topic, partition, offset, and which row of it where several."""
    if row["topic"] is None:
        return ""
    of = f".{row['row']}" if row["row"] is not None and row["row"] > 0 else ""
    return f"{row['topic']} {row['partition']}:{row['offset']}{of}"


def history(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    fixed: Mapping[str, str],
    *,
    verbose: bool,
) -> list[Shown]:
    """The changes of a target: `columns` are its own, `fixed` says what the others are called. The
    key that a change of the key gave up is shown where there is such a change."""
    own = [
        Shown(
            Column(name, Kind.COUNT if _numeric(rows, name) else Kind.TEXT, Where.FOLDED),
            [cell(row[name]) for row in rows],
        )
        for name in columns
    ]
    fixed_names = [
        {part: row[fixed[part]] for part in ("topic", "partition", "offset", "row")} for row in rows
    ]
    shown = [
        _names(fixed["op"], rows),
        _names(fixed["event_time"], rows),
        _names(fixed["tx_id"], rows, where=Where.LEFT_OUT),
        *own,
        *([] if verbose else _given_up(rows, key=fixed["key"], before=fixed["key_before"])),
        _messages_of(fixed_names, verbose=verbose)._replace(
            column=Column("message", Kind.NAME if verbose else Kind.PATH, Where.LEFT_OUT)
        ),
    ]
    if verbose:
        shown += [_names(fixed[name], rows) for name in ("pos", "key", "key_before", "batch")]
    return shown


def _given_up(rows: Sequence[Mapping[str, Any]], *, key: str, before: str) -> list[Shown]:
    """The keys that rows had before changes of their key; no column where none changed."""
    keys = ["" if row[before] == row[key] else cell(row[before]) for row in rows]
    return [Shown(Column(before), keys)] if any(keys) else []


def planned_sources(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The sources of `plan`."""
    return [
        _names("source", rows),
        _counts("new_files", rows, name="new files"),
        _counts("new_messages", rows, name="new messages"),
        _counts("to_decode", rows, name="to decode"),
        Shown(
            Column("estimated events", Kind.COUNT),
            [_estimate(row["estimated_events"]) for row in rows],
        ),
        _texts("waits", rows),
    ]


def _estimate(events: int | None) -> str:
    return "?" if events is None else f"{events:,}"


def planned_partitions(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The offsets of `plan`."""
    counts = (_counts(name, rows, always=True) for name in ("start", "end", "messages"))
    return [_names("topic", rows), _counts("partition", rows, always=True), *counts]


def planned_tables(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The target tables of `plan`."""
    return [
        _names("table", rows),
        _names("source", rows),
        Shown(Column("state", Kind.STATE), [_ACTIONS[row["action"]] for row in rows]),
        _counts("events", rows, always=True),
        _texts("why", rows),
    ]


_ACTIONS = {"create": "created", "merge": "merged", "park": "parked", "rest": "resting"}


def planned_changes(rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The schema changes of `plan`."""
    ids = short_ids(row["id"] for row in rows)
    states = {"apply": "applied", "review": "pending, new", "log": "ignored", "wait": "pending"}
    return [
        Shown(Column("id"), [ids[row["id"]] for row in rows]),
        Shown(Column("state", Kind.STATE), [states[row["action"]] for row in rows]),
        _names("class", rows),
        Shown(Column("table"), [row["target"] or row["table"] for row in rows]),
        _texts("statement", rows),
        _texts("proposed", rows),
    ]


def inspected(rows: Sequence[Mapping[str, Any]], *, verbose: bool) -> list[Shown]:
    """What `inspect` decoded, as `compact` has it."""
    path = Kind.NAME if verbose else Kind.PATH
    return [
        Shown(Column("message", path), [cell(row["at"]) for row in rows]),
        _names("format", rows),
        _names("kind", rows),
        _names("op", rows),
        _names("table", rows),
        _texts("key", rows),
        _texts("before", rows),
        _texts("after", rows),
        _texts("notes", rows),
    ]


def formats(rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> list[Shown]:
    """The formats, or the codes: short names beside one text, which comes last."""
    order = sorted(range(len(columns)), key=lambda i: columns[i] in ("summary", "text"))
    return [
        Shown(
            Column(columns[i], Kind.TEXT if columns[i] in ("summary", "text") else Kind.NAME),
            [cell(row[i]) for row in rows],
        )
        for i in order
    ]


def _names(
    key: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    where: Where = Where.BESIDE,
) -> Shown:
    return Shown(Column(name or key, Kind.NAME, where), [cell(row[key]) for row in rows])


def _waits(rows: Sequence[Mapping[str, Any]]) -> Shown:
    """How long what waits has waited."""
    now = datetime.now(UTC)
    since = [row.get("lag_seconds") for row in rows]
    waits = [age(now - timedelta(seconds=n), now) if n else "" for n in since]
    return Shown(Column("waits", Kind.COUNT), waits)


def _texts(key: str, rows: Sequence[Mapping[str, Any]]) -> Shown:
    return Shown(Column(key, Kind.TEXT, Where.BELOW), [cell(row[key]) for row in rows])


def _counts(
    key: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    where: Where = Where.BESIDE,
    always: bool = False,
) -> Shown:
    """Numbers; where all are zero nothing, unless they are `always` told."""
    values = [row[key] for row in rows]
    told = always or any(values)
    cells = [f"{value:,}" if told and value is not None else "" for value in values]
    return Shown(Column(name or key, Kind.COUNT, where), cells)


def _numeric(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    held = [row[name] for row in rows if row[name] is not None]
    return bool(held) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in held
    )
