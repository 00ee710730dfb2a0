"""Which source tables feed each target, and which are kept apart because another was there first.

Its progress shows who fed a target first: the watermarks of its source tables are in the order in
which they came. A source table that meets such a target without being meant to share it is parked
by itself (semantics.md, 70): `ParkedTable` is its row in `gold._progress`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.config.load import Config
from ingest.config.routes import Feeders
from ingest.names import SourceTable, label_of
from pipelines.targets.progress import ParkedTable, ProgressByTarget, is_target


def feeders(config: Config, progress_by_target: ProgressByTarget) -> Feeders:
    """The source tables that have fed each target and are still routed there, in the order in which
    they came.

    Those of a source that the configuration does not know count as well: another configuration on
    the same warehouse may route them there.
    """
    by_target: dict[str, list[SourceTable]] = {}
    for (source, target), progress in progress_by_target.items():
        if not is_target(target) or not progress.last_batch:
            continue
        came = {label: number for number, label in enumerate(progress.watermarks)}
        fed = [
            table
            for names in progress.tables
            if label_of(table := SourceTable(source, *names)) in came or not came
            if source not in config.sources or _led(config, table) == target.lower()
        ]
        fed.sort(key=lambda table: (came.get(label_of(table), 0), str(table)))
        by_target.setdefault(target.lower(), []).extend(fed)
    return by_target


def kept_apart(
    source: str, errors: Mapping[SourceTable, str], progress_by_target: ProgressByTarget
) -> tuple[list[ParkedTable], list[ParkedTable]]:
    """The source tables that are parked by themselves, with the reason, and those that no longer
    are."""
    parked = [ParkedTable.of(table, error) for table, error in errors.items()]
    names = {row.target for row in parked}
    freed = [
        row.unparked()
        for row in progress_by_target.values()
        if isinstance(row, ParkedTable) and row.source == source
        if row.target not in names and row.status == "parked"
    ]
    return parked, freed


def _led(config: Config, table: SourceTable) -> str | None:
    route = config.route(table.source, db=table.db, schema=table.schema, table=table.table)
    return route.target.lower() if route is not None else None
