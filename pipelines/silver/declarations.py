"""The declaration that silver of a source was decoded with, and whether it is today's.

It lies beside the streams' checkpoints, `<checkpoints>/silver/_declarations/<source>.json`, and not
in the stream's own folder, which may have to be removed. While it differs from today's in something
that silver has already, nothing new is decoded: two encodings would meet in one column.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ingest.config.declaration import Declaration, changed_columns, changed_settings
from ingest.config.sources import Source
from ingest.errors import SourceError
from ingest.names import SourceTable, label_of
from ingest.sql.query import select
from ingest.sql.quoting import equal
from ingest.sql.silver import columns_among, silver_changes
from pipelines.platform.checkpoints import write_whole
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.history import by_arrival
from pipelines.silver.source_tables import source_tables

_NAMED = 5
"""Tables that the sentence on a changed declaration names."""


def declared(warehouse: Warehouse, source: str) -> Declaration | None:
    """The declaration that silver of the source was decoded with; None if none was kept.

    Raises SourceError if it cannot be read.
    """
    file = _file(warehouse, source)
    if not file.exists():
        return None
    try:
        return Declaration.from_json(file.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise SourceError(
            f"source {source}: {file} cannot be read ({error}); run `ingest redecode --source "
            f"{source}`"
        ) from None


def remember(warehouse: Warehouse, source: Source) -> None:
    """From now on silver of the source is decoded by today's declaration."""
    write_whole(_file(warehouse, source.name), Declaration.of(source).to_json())
    _doubt(warehouse, source.name).unlink(missing_ok=True)


def doubt(warehouse: Warehouse, source: Source) -> None:
    """Note that silver of the source is about to become what today's declaration makes of it. If
    the process is killed, silver may be either; then nothing is decoded by either declaration until
    one is remembered."""
    try:
        before = declared(warehouse, source.name)
    except SourceError:
        # That error already says what to do.
        return
    if before is not None and before != Declaration.of(source):
        write_whole(_doubt(warehouse, source.name), b"")


def forget(warehouse: Warehouse, source: str) -> None:
    """Note that silver has nothing of the source any more."""
    # First the file that would stop the source if this were killed in between.
    _doubt(warehouse, source).unlink(missing_ok=True)
    _file(warehouse, source).unlink(missing_ok=True)


def check(warehouse: Warehouse, source: Source) -> None:
    """Raise SourceError if something that silver has is declared otherwise today.

    What only concerns tables and columns that have not come yet is taken over.
    """
    if _doubt(warehouse, source.name).exists():
        raise SourceError(
            f"source {source.name}: silver was not decoded again to the end; run `ingest redecode "
            f"--source {source.name}` once more; until then its new messages wait in bronze"
        )
    before, now = declared(warehouse, source.name), Declaration.of(source)
    if before == now:
        return
    check_arrival(warehouse, source)
    changed = differing(warehouse, source.name, before, now=now) if before is not None else []
    if changed:
        listed = "; ".join(changed[:_NAMED])
        more = f"; and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise SourceError(
            f"source {source.name}: expected the declarations that silver was decoded with, got "
            f"others: {listed}{more}. Run `ingest redecode --source {source.name}`, or put them "
            "back; until then its new messages wait in bronze"
        )
    remember(warehouse, source)


def check_arrival(warehouse: Warehouse, source: Source) -> None:
    """Raise SourceError if silver has changes of the source by arrival, and those that come would
    have places of another kind: files have numbers, and records of topics have times.

    Asked before messages come to bronze, where those of both would stand side by side.
    """
    try:
        before = declared(warehouse, source.name)
    except SourceError:
        # That error already says what to do.
        return
    now = Declaration.of(source).arrival
    if before is None or before.arrival in (None, now) or not warehouse.exists("silver", "cdc"):
        return
    arrived = f"{equal(source=source.name, kind='change')} AND {by_arrival(source)}"
    if warehouse.session.sql(select(warehouse.name("silver", "cdc"), arrived)).isEmpty():
        return
    got, were = ("files", "a topic") if now == "files" else ("a topic", "files")
    raise SourceError(
        f"source {source.name}: expected messages of {were}, as those that silver has in the order "
        f"of their arrival, got {got}: their places are of two kinds, which cannot be compared. "
        "Put its transport and framing back, give these messages to a source of another name, or "
        f"begin anew by `ingest reset --source {source.name} --bronze`"
    )


def differing(
    warehouse: Warehouse, source: str, before: Declaration, *, now: Declaration
) -> list[str]:
    """What of the contents of silver is declared otherwise, in words: settings, then tables with
    columns."""
    tables = [table for table in source_tables(warehouse) if table.source == source]
    if not tables and _without_changes(warehouse, source):
        return []
    found = changed_settings(before, now)
    changed = {
        table: names for table in tables if (names := changed_columns(before, now, table.path))
    }
    for table, names in _held(warehouse, changed).items():
        found.append(f"types of {label_of(table)} ({', '.join(names)})")
    return found


def _without_changes(warehouse: Warehouse, source: str) -> bool:
    """Whether silver has no change of the source, not even one that names no table."""
    if not warehouse.exists("silver", "cdc"):
        return True
    changes = select(warehouse.name("silver", "cdc"), equal(source=source, kind="change"))
    return warehouse.session.sql(changes).isEmpty()


def _held(
    warehouse: Warehouse, changed: dict[SourceTable, list[str]]
) -> dict[SourceTable, list[str]]:
    """Those of these columns that some change in silver has."""
    found = {}
    silver = warehouse.name("silver", "cdc")
    for table, names in changed.items():
        changes = silver_changes(silver, [table], "true")
        held = warehouse.session.sql(columns_among(changes, names))
        if came := sorted(name for (name,) in rows(held)):
            found[table] = came
    return found


def _file(warehouse: Warehouse, source: str) -> Path:
    return Path(warehouse.checkpoint("silver", "_declarations", f"{source}.json"))


def _doubt(warehouse: Warehouse, source: str) -> Path:
    return Path(warehouse.checkpoint("silver", "_declarations", f"{source}.doubt"))
