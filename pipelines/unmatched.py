"""What stays in silver without being meant to: patterns that no table matches, nameless tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingest.config import Config
from ingest.mistakes import nearest
from ingest.names import matches
from pipelines.progress import SWEEP, load
from pipelines.tables import Warehouse


def unmatched(warehouse: Warehouse, config: Config, sources: Sequence[str]) -> Iterator[str]:
    """A sentence for each pattern that means no table gold has seen of its source, be it mistyped
    or not come yet, and for each source with changes that name no table."""
    if not warehouse.exists("gold", "_progress"):
        return
    stands = load(warehouse)
    for source in sources:
        swept = stands.get((source, SWEEP))
        told = swept.tables if swept is not None else {}
        seen = [table for table in told if table[2]]
        if any(last and not table[2] for table, last in told.items()):
            yield f"source {source}: changes that name no table stay in silver; set default_table"
        names = [".".join(name for name in table if name) for table in seen]
        patterns = (p for entry in config.tables[source].tables for p in entry.patterns)
        for pattern in patterns if seen else ():
            if not any(matches(pattern, db=d, schema=s, table=t) for d, s, t in seen):
                near = nearest(pattern, names)
                yield f"source {source}: no table so far matches `from: {pattern}`{near}"
