"""Patterns of tables files that mean no source table there is: mistyped, or not come yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingest.config import Config
from ingest.mistakes import nearest
from ingest.names import matches
from pipelines.progress import SWEEP, load
from pipelines.tables import Warehouse


def unmatched(warehouse: Warehouse, config: Config, sources: Sequence[str]) -> Iterator[str]:
    """A sentence for each such pattern of sources whose tables gold has seen."""
    if not warehouse.exists("gold", "_progress"):
        return
    stands = load(warehouse)
    for source in sources:
        swept = stands.get((source, SWEEP))
        seen = swept.tables if swept is not None else ()
        names = [".".join(name for name in table if name) for table in seen]
        patterns = (p for entry in config.tables[source].tables for p in entry.patterns)
        for pattern in patterns if seen else ():
            if not any(matches(pattern, db=d, schema=s, table=t) for d, s, t in seen):
                near = nearest(pattern, names)
                yield f"source {source}: no table so far matches `from: {pattern}`{near}"
