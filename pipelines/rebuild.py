"""Gold of one target anew from silver, in one commit.

1. Fold what was applied to the target, up to its own progress, and overwrite the table with it: one
   commit of Delta Lake, so readers see the old rows or the new, and whoever reads the old ones may
   finish.
2. Note that every row now stands at its own newest change.
3. Bring forward what silver has beyond that.

A process that is killed in between leaves a whole table behind, old or new, and progress that holds
for both.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from ingest.config import Config
from pipelines.gold import Merged, merge_tables
from pipelines.known_targets import Ways
from pipelines.leases import lease
from pipelines.progress import Progress, load, record, stand_of
from pipelines.refilling import overwrite
from pipelines.standing import Standing, as_applied
from pipelines.tables import Warehouse
from pipelines.targets import check_kept, create

REBUILT = ("kind", "table", "rows", "events", "seconds")


class Rebuilt(NamedTuple):
    """What a rebuild did: rows written, events folded, seconds it took; `merged` is what came
    after."""

    rows: int
    events: int
    seconds: float
    merged: list[Merged]

    def row(self, target: str) -> tuple[str | int | float, ...]:
        """As a row of REBUILT."""
        return ("rebuilt", target, self.rows, self.events, round(self.seconds, 3))


def rebuild(warehouse: Warehouse, config: Config, target: str, ways: Ways) -> Rebuilt:
    """Make the target anew; see above. Raises TableError where it can have no rows."""
    began = time.monotonic()
    source = ways[target][0][0].source
    written = events = 0
    seconds = 0.0
    with lease(warehouse.checkpoint(), "gold"):
        stand = stand_of(warehouse, source, target)
        if stand.applied[0]:
            with as_applied(warehouse, config, target, ways[target], stand) as standing:
                if not warehouse.exists("gold", target):
                    create(warehouse, target, standing.columns, standing.made, soft=standing.soft)
                check_kept(warehouse, target, mode=standing.made.mode, soft=standing.soft)
                written = overwrite(standing)
                events = sum(work.total("changes") for work in standing.works)
                noted = _noted(stand, standing)
            seconds = time.monotonic() - began
            noted = replace(noted, events=events, inserted=written, seconds=seconds)
            record(warehouse, [noted], load(warehouse))
    merged = merge_tables(warehouse, config, sources=[source], targets=[target])
    return Rebuilt(written, events, seconds, merged)


def _noted(stand: Progress, standing: Standing) -> Progress:
    """Parked or not, the target is where it was; but no row is below a change that was skipped, as
    a version may be, and deletes and truncates are what the configuration makes of them now."""
    versions = standing.made.mode == "scd2"
    cuts = {work.shape.label: tuple(sorted(work.new_cuts)) for work in standing.works}
    marks = {
        label: replace(marks, skipped=marks.applied if versions else None, cuts=cuts.get(label, ()))
        for label, marks in stand.marks.items()
    }
    status = "ok" if stand.made is not None and stand.made.differs(standing.made) else stand.status
    return replace(stand.fresh(), marks=marks, made=standing.made, status=status, error=stand.error)
