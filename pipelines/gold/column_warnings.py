"""What `run` and `status` say of a target's columns.

Some are string, because neither the messages nor the YAML say their type. And some are in clear,
where the tables file hides a column that no message has by a mask or `exclude`, under a name that
is spelled much like theirs: most likely a mistake in writing, which nobody would notice otherwise,
since gold is as it would be without the line, and `ingest status` lists the mask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl.changes import AddColumn, AlterColumnType
from ingest.names import declared_for, lowered
from ingest.sql.metadata import source_name
from pipelines.ledger.entries import IN_FORCE, Entry
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Names, load_progress

_LISTED = 10
"""Columns of a table that its sentence names."""
_ALIKE = 0.75
"""How much alike two names are, from 0 to 1 (`difflib.SequenceMatcher.ratio`)."""


def untyped_columns(
    before: Collection[str],
    columns: Mapping[str, str],
    route: Route,
    *,
    new: Collection[str],
    typed: Collection[str],
) -> tuple[str, ...]:
    """Those of a target's columns that have no type: of those `before`, and of the `new` ones.

    `typed`: columns to which messages or statements give a type now. The shard column is the
    product's own, and typed.
    """
    shard = (route.shard_column,) if route.shard_column else ()
    known = lowered((*typed, *route.columns, *shard))
    asked = lowered((*before, *new)) - known
    return tuple(
        name for name, type_ in columns.items() if type_ == "string" and name.lower() in asked
    )


def stated_names(entries: Iterable[Entry]) -> set[str]:
    """The columns to which statements of the source that are in force give a type."""
    return {
        effect.name
        for entry in entries
        if entry.statement and entry.status in IN_FORCE
        for effect in entry.effects
        if isinstance(effect, AddColumn | AlterColumnType) and effect.type is not None
    }


def untyped(
    warehouse: Warehouse,
    sources: Sequence[str],
    *,
    targets: Collection[str] | None = None,
) -> Iterator[str]:
    """A sentence for each target with columns that have no type, and what to write about it. With
    `targets`, only for these."""
    for (source, target), progress in sorted(load_progress(warehouse).items()):
        if source not in sources or not progress.untyped:
            continue
        if targets is not None and target not in targets:
            continue
        labels = sorted(progress.watermarks)
        declared = _declared(warehouse.config.sources[source], progress.tables)
        lacking = [name for name in progress.untyped if source_name(name).lower() not in declared]
        if not lacking:
            continue
        names = ", ".join(lacking[:_LISTED])
        if len(lacking) > _LISTED:
            names += f" and {len(lacking) - _LISTED} more"
        of = labels[0] if labels else "db.table"
        first = source_name(lacking[0])
        yield (
            f"table {target}: no message of a row says the types of {names}: string. To give them "
            f"types, write `columns: {{{of}: {{{first}: …}}}}` in the YAML of source {source}, "
            f"then run `ingest redecode --source {source}`, which also makes the table anew"
        )


def _declared(source: Source, tables: Iterable[Names]) -> set[str]:
    """The columns of source tables, in lower case, to which the YAML gives types by now. The run
    that meets them says what is to be done next."""
    return {name.lower() for table in tables for name in declared_for(source.columns, table)}


def misspelt_columns(
    route: Route, columns: Iterable[str], *, met: Collection[str]
) -> dict[str, str]:
    """The names that the route hides and that are none of those `met`, each with the column of the
    target, among `columns`, that it may mean."""
    hidden = (*route.masks, *route.exclude)
    clear = {name.lower(): name for name in columns if name.lower() not in lowered(hidden)}
    known = lowered(met)
    unmet = [name for name in hidden if name.lower() not in known]
    alike = {name: get_close_matches(name.lower(), clear, n=1, cutoff=_ALIKE) for name in unmet}
    return {name: clear[near[0]] for name, near in alike.items() if near}


def misspelt(
    warehouse: Warehouse, sources: Collection[str], *, targets: Collection[str] | None = None
) -> Iterator[str]:
    """A sentence for each such name that the sources' targets have met. With `targets`, only for
    these."""
    for (source, target), progress in sorted(load_progress(warehouse).items()):
        if source in sources and (targets is None or target in targets):
            yield from _sentences(target, progress.misspelt)


def _sentences(target: str, found: Mapping[str, str]) -> Iterator[str]:
    for name, clear in found.items():
        yield (
            f"table {target}: the tables file hides the column {name}, which the newest messages "
            f"do not have, while {clear} is in clear. If that is the column you mean, write its "
            f"name there, then run `ingest rebuild {target}`"
        )
