"""The reference of the tables: every column, its type and its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingest.events import SILVER
from pipelines.documentation.pages import code, table
from pipelines.ledger.entries import DDL
from pipelines.platform.warehouse import BRONZE
from pipelines.privacy.record import ERASURES
from pipelines.targets.progress import PROGRESS
from pipelines.targets.rejects import REJECTS
from pipelines.telemetry.runs import RUNS

Columns = Iterable[tuple[str, str]]
"""Names and types."""

MEANINGS: Mapping[str, tuple[Columns, Mapping[str, str]]] = {
    "messages": (
        BRONZE,
        {
            "source": "name of the declared source",
            "topic": "topic, or path of the file",
            "partition": "partition of the topic, or ordinal of the file",
            "offset": "offset in the partition, or record number in the file, from 0",
            "timestamp": "the record's timestamp; of a file, its time of modification",
            "key": "the record's key, as received",
            "value": "the record's value, as received",
            "headers": "the record's headers, as received",
            "epoch": "the source's `epoch` when the message arrived",
            "ingested_at": "when it was written here, UTC",
        },
    ),
    "progress": (
        PROGRESS,
        {
            "target": "the gold table; `*` is the row that says how far a source was looked "
            "through",
            "source": "the source that feeds it",
            "batch": "the last batch of silver that is applied",
            "at": "when the row was written, UTC",
            "events": "changes that this run applied or found to make no difference",
            "inserted": "rows that the run inserted",
            "updated": "rows that it updated; among them the versions that it ended, and with "
            "`deletes: soft` the rows that it marked as deleted",
            "deleted": "rows that it took out of the table",
            "late": "keys that were folded again from history, since a change of theirs came after "
            "newer ones, or may have, or moved the key, or needs the row that it left out",
            "keys_refolded": "those keys, with the ones that changes of the key link to them",
            "files_read": "files of silver that were read for that",
            "stale": "changes that newer ones had overtaken, so nothing was to do",
            "rejected": "changes set aside, see `gold._rejects`",
            "zero_dates": "impossible dates (0000-00-00) that are NULL in the table",
            "seconds": "how long the table took",
            "status": "`ok`, or `parked` where the table cannot go on",
            "error": "why it is parked, and what to do",
            "last_pos": "the highest position applied",
            "freshness": "the newest event time applied, UTC",
            "state": "what the next run has to know, as JSON; no interface",
            "version": "one higher with each row of the target",
        },
    ),
    "ddl": (
        DDL,
        {
            "id": "what `ingest ddl approve` takes; its beginning will do",
            "source": "the source it came from",
            "db": "source database",
            "schema": "source schema",
            "table": "source table",
            "target": "the gold table concerned",
            "status": "pending, approved, applied, rejected, ignored, superseded or failed",
            "class": "additive, widening, destructive, unparsed or none",
            "kind": "what changes: add_column, drop_column, rename_column, retype, …",
            "statement": "the statement of the source; passwords in it are blanked out",
            "dialect": "its SQL dialect",
            "proposed": "the Delta statement that approval runs",
            "pos": "where it stands in the order of changes",
            "event_time": "when it happened at the source, UTC",
            "waiting_rows": "rows of silver that had a value for it, counted when somebody decides",
            "decided_by": "who decided; `policy` where the configuration did",
            "decided_at": "when, UTC",
            "why": "the reason given; of a failed one, what went wrong",
            "effects": "how earlier changes are read since, as JSON; no interface",
            "joined": "ids of statements that it stands for as well",
            "at": "when the row was written last, UTC",
            "version": "one higher each time that the row is written",
        },
    ),
    "rejects": (
        REJECTS,
        {
            "id": "what `ingest rejects show` takes; its beginning will do",
            "stage": "`gold`; `decode` of one of `silver.rejects` that was replayed or dismissed",
            "source": "the source it came from",
            "topic": "topic, or path of the file",
            "partition": "partition of the topic, or ordinal of the file",
            "offset": "offset in the partition, or record number in the file",
            "row": "index of the change inside its message",
            "target": "the gold table it was to go to",
            "code": "why, see [codes](codes.md)",
            "error": "what was expected, what came, where",
            "misfits": "of a `type_mismatch`, each column, its type and the value that did not fit",
            "value": "the row of the change, as JSON; null where `stage` is `decode`",
            "status": "`open`, `resolved` or `dismissed`",
            "attempts": "how often a replay tried it in vain",
            "at": "when the row was written last, UTC",
            "version": "one higher each time that the row is written",
            "epoch": "the epoch of its message",
        },
    ),
}
"""Table -> its columns, and what each says."""


def reference(name: str) -> str:
    """The columns of one table of the product's own."""
    if name == "cdc":
        rows = [(column.name, column.type, column.text) for column in SILVER]
    elif name in ("runs", "erasures"):
        rows = list(RUNS if name == "runs" else ERASURES)
    else:
        columns, meanings = MEANINGS[name]
        rows = [(column, type_, meanings[column]) for column, type_ in columns]
    head = ("column", "type", "what it says")
    return table(head, [(code(name), code(type_), text) for name, type_, text in rows])
