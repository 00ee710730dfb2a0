"""Gold of one target made anew from silver, in one commit, under today's columns, key and mode.

1. Fold what was applied to the target, up to its own progress, and overwrite the table with it: one
   commit of Delta Lake, so readers see the old rows or the new ones, and whoever reads the old ones
   can finish. What the fold leaves out is set aside, as by a run. If the target becomes one of
   another kind (mode, key, masks), that is noted before: a killed rebuild leaves it of either kind,
   and nothing is applied to it until it is rebuilt.
2. Note that every row now stands at its own newest change.
3. Review again what waits in the ledger for another type of a column: it may be a widening of
   today's type although it was none of the earlier one.
4. Bring forward what silver has beyond that.

A process that is killed in between leaves a whole table behind, old or new, and progress that holds
for both. What was not reviewed again is reviewed by the next run that looks through the ledger. A
table that is gone is made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ingest.config.modes import TargetContract
from ingest.ddl.changes import ChangeKey, only
from ingest.ddl.widening import canonical_type
from ingest.errors import TableError
from ingest.names import lowered
from ingest.position import highest
from pipelines.apply.batch import TableBatch
from pipelines.apply.watermarks import key_overridden, watermarks_of_history
from pipelines.gold.column_warnings import untyped_columns
from pipelines.gold.known_targets import KnownTarget
from pipelines.gold.reconstruction import Reconstruction, as_made_today
from pipelines.gold.refold import Filled, check_owners, fill, overwrite, reordered
from pipelines.gold.run import Merged, merge_tables
from pipelines.gold.shared_keys import hand_over
from pipelines.ledger import decisions
from pipelines.ledger.entries import WAITING, Entry, write_entries
from pipelines.ledger.store import Ledger
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import projects
from pipelines.targets.progress import (
    Progress,
    ProgressByTarget,
    Watermarks,
    load_progress,
    progress_of,
    record_progress,
)
from pipelines.targets.table import (
    add_deletion_time,
    check_contract,
    columns_of,
    contract_of,
    replace_table,
)

REBUILT = ("kind", "table", "rows", "rejected", "events", "seconds")


class Change(NamedTuple):
    """What a rebuild changes in the table itself. `grave`: it changes which rows the table keeps,
    or how it tells them apart."""

    text: str
    grave: bool = False


class Rebuilt(NamedTuple):
    """What a rebuild did: rows written, changes set aside because they have no place in them,
    events folded, and how many seconds it took. `merged` is what a run did after it. `changes`:
    what it changed in the table or, if `refused`, what it would have changed."""

    rows: int
    rejected: int
    events: int
    seconds: float
    merged: list[Merged]
    changes: list[Change]
    refused: bool = False

    def row(self, target: str) -> tuple[str | int | float, ...]:
        """As a row of REBUILT."""
        return ("rebuilt", target, *self[:3], round(self.seconds, 3))


def rebuild(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    confirmed: bool = True,
) -> Rebuilt:
    """Make the target anew, as described above. Raises TableError if it can have no rows.

    Unless `confirmed`, a rebuild that would change the key or the mode of a table does nothing.
    """
    began = time.monotonic()
    source = target.source
    if source in warehouse.config.sources:
        projects.check(warehouse, source)
    done = Rebuilt(0, 0, 0, 0.0, [], [])
    with lease(warehouse, "gold"):
        progress = progress_of(warehouse, source, target.name)
        if progress.outdated == "decoding":
            raise TableError(progress.why_outdated)
        if progress.last_batch:
            with as_made_today(warehouse, target, progress) as reconstruction:
                gone = not warehouse.exists("gold", target.name)
                changes = [] if gone else _changes(reconstruction, progress.contract)
                if any(change.grave for change in changes) and not confirmed:
                    return done._replace(changes=changes, refused=True)
                known = load_progress(warehouse)
                with _in_doubt(reconstruction, known):
                    filled = _filled(reconstruction, known, gone=gone, changes=changes)
                events = sum(batch.total("changes") for batch in reconstruction.batches)
                noted = _noted(known[source, target.name], reconstruction, gone=gone)
            seconds = time.monotonic() - began
            noted = replace(noted, events=events, inserted=filled.rows, rejected=filled.rejected)
            record_progress(warehouse, [replace(noted, seconds=seconds)], known)
            write_entries(warehouse, _confirmed(reconstruction))
            ledger = Ledger(warehouse, source, progress_by_target=known)
            retyping = filter(decisions.retypes, reconstruction.entries)
            decisions.review_again(ledger, retyping, reconstruction.route)
            hand_over(ledger, reconstruction.route)
            done = Rebuilt(*filled, events, seconds, [], changes)
    merged = merge_tables(warehouse, sources=[source], targets=[target.name])
    return done._replace(merged=merged)


@contextmanager
def _in_doubt(reconstruction: Reconstruction, known: ProgressByTarget) -> Iterator[None]:
    """Note, while the rows of a target are replaced by those of another kind, that it may hold
    either: otherwise a run with an earlier tables file would go on with rows of the wrong kind."""
    warehouse, of = reconstruction.warehouse, (reconstruction.source, reconstruction.target)
    before = known[of]
    if before.outdated is not None or not _other_kind(before.contract, reconstruction.contract):
        yield
        return
    doubtful = replace(before, outdated="rebuilding")
    record_progress(warehouse, [doubtful.parked(doubtful.why_outdated or "")], known)
    newest = warehouse.stamp("gold", reconstruction.target)
    try:
        yield
    except Exception:
        if warehouse.stamp("gold", reconstruction.target) != newest:
            # It failed after its commit: the rows are of the other kind.
            raise
        as_before = replace(
            known[of],
            outdated=None,
            status=before.status,
            error=before.error,
            parked_for=before.parked_for,
        )
        record_progress(warehouse, [as_before], known)
        raise


def _other_kind(before: TargetContract | None, now: TargetContract) -> bool:
    """Whether a target that was made for `before` does not suit `now`."""
    return before is not None and (before.differs(now) or lowered(before.keys) != lowered(now.keys))


def _filled(
    reconstruction: Reconstruction,
    known: ProgressByTarget,
    *,
    gone: bool,
    changes: Sequence[Change],
) -> Filled:
    """Write the rows, into the table as it is if that will do. A table that is gone is made by the
    same commit: without its rows it would look as if it had everything that was applied to it."""
    warehouse, target, contract = (
        reconstruction.warehouse,
        reconstruction.target,
        reconstruction.contract,
    )
    if not (changes or gone):
        check_contract(warehouse, target, contract=contract)
        if reconstruction.soft:
            add_deletion_time(warehouse, target)
        return overwrite(reconstruction, known)

    def replaced(rows: str) -> None:
        check_owners(reconstruction, rows)
        replace_table(warehouse, target, reconstruction.typed(rows), contract=contract)

    return fill(reconstruction, replaced, known)


def _changes(reconstruction: Reconstruction, before: TargetContract | None) -> list[Change]:
    """How the table as it is differs from what the configuration and the messages ask for today."""
    warehouse, target = reconstruction.warehouse, reconstruction.target
    stored = columns_of(warehouse, target) or {}
    changes = _column_changes(stored, reconstruction.columns)
    kept = contract_of(warehouse, target) or before
    contract = reconstruction.contract
    if kept is not None and kept.mode != contract.mode:
        text = f"stored_as_scd_type {kept.stored_as} becomes {contract.stored_as}"
        changes.append(Change(text, grave=True))
    held_masks = (before.masks if before is not None else ()) or (kept.masks if kept else ())
    if held_masks != contract.masks:
        old, new = (", ".join(masks) or "none" for masks in (held_masks, contract.masks))
        changes.append(Change(f"masks ({old}) become ({new})"))
    if kept is not None and kept.sequence != contract.sequence:
        old, new = (", ".join(names) or "none" for names in (kept.sequence, contract.sequence))
        changes.append(Change(f"sequence_by ({old}) becomes ({new})"))
    if kept is not None and lowered(kept.keys) != lowered(contract.keys):
        old, new = ", ".join(kept.keys) or "none", ", ".join(contract.keys) or "none"
        changes.append(Change(f"key ({old}) becomes ({new})", grave=True))
    return changes


def _column_changes(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[Change]:
    """How the `wanted` columns differ from those that a table has; names are matched without
    case."""
    types = {name.lower(): type_ for name, type_ in stored.items()}
    changes = []
    for name, type_ in wanted.items():
        before = types.get(name.lower())
        if before is None:
            changes.append(Change(f"column {name} {type_} is new"))
        elif canonical_type(before) != canonical_type(type_):
            changes.append(Change(f"column {name} {before} becomes {type_}"))
    kept = lowered(wanted)
    gone = [(name, type_) for name, type_ in stored.items() if name.lower() not in kept]
    return changes + [Change(f"column {name} {type_} goes") for name, type_ in gone]


def _confirmed(reconstruction: Reconstruction) -> list[Entry]:
    """The ledger's entries that waited for the key which the target has now.

    An entry that waits for a type keeps waiting: once it is applied, values that do not fit become
    NULL.
    """
    keys = lowered(reconstruction.keys)

    def kept(entry: Entry) -> bool:
        changes = only(ChangeKey, entry.effects)
        of_key_alone = len(changes) == len(entry.effects)
        return of_key_alone and any(keys >= lowered(change.keys) for change in changes)

    return [
        entry.with_status("applied", by="rebuild")
        for entry in reconstruction.entries
        if entry.status in WAITING and kept(entry)
    ]


def _marks(
    known: Watermarks, batch: TableBatch | None, *, versions: bool, was_keyed: bool
) -> Watermarks:
    """The watermarks of a source table after a rebuild from its history, `batch`; see `_noted`.
    `was_keyed`: the target had no images before."""
    marks = replace(known, last_noop=known.applied if versions else None, more_truncates=False)
    if batch is None:
        return marks.with_truncates({})
    if not was_keyed:
        # Images had no use for these.
        of_rows = watermarks_of_history(batch)
        marks = replace(marks, partials=of_rows.partials, unhashed=of_rows.unhashed)
    overridden = known.key_overridden or key_overridden(batch)
    return replace(marks, key_overridden=overridden).with_truncates(batch.new_truncates)


def _noted(progress: Progress, reconstruction: Reconstruction, *, gone: bool) -> Progress:
    """The progress after a rebuild. How far the target is does not change, parked or not. Skipped
    changes that changed nothing are forgotten, unless versions are kept, and truncates are what
    today's configuration makes of them."""
    contract = reconstruction.contract
    doubtful = progress.outdated == "rebuilding"
    if doubtful:
        progress = replace(progress, outdated=None)
    untyped = untyped_columns(
        progress.untyped,
        reconstruction.columns,
        reconstruction.route,
        new=(),
        typed=reconstruction.typed_names,
    )
    progress = replace(progress, untyped=untyped, declared=dict(reconstruction.route.columns))
    other = progress.contract is not None and (progress.contract.mode, progress.contract.keys) != (
        contract.mode,
        contract.keys,
    )
    batches = {batch.projection.label: batch for batch in reconstruction.batches}
    if progress.outdated is not None:
        watermarks = {label: watermarks_of_history(batch) for label, batch in batches.items()}
        top = highest(known.applied for known in watermarks.values())
        times = [
            s.newest
            for batch in reconstruction.batches
            for s in batch.stats
            if s.newest is not None
        ]
        return replace(
            progress.unparked(),
            watermarks=watermarks,
            contract=contract,
            outdated=None,
            unsent={},
            last_pos=top,
            freshness=max(times, default=None),
        )
    versions = contract.keeps.versions or other or gone
    was_keyed = progress.contract is None or progress.contract.keeps.keyed
    watermarks = {
        label: _marks(known, batches.get(label), versions=versions, was_keyed=was_keyed)
        for label, known in progress.watermarks.items()
    }
    if reordered(reconstruction, progress):
        watermarks |= {label: watermarks_of_history(batch) for label, batch in batches.items()}
    differed = progress.contract is not None and progress.contract.differs(contract)
    well = differed or gone or other or doubtful
    now = progress.unparked() if well else progress.uncounted()
    return replace(now, watermarks=watermarks, contract=contract)
