"""`ingest rejects dismiss`: rejects that somebody has dealt with, so that only the others raise
alarms.

A dismissed reject stays, with who dismissed it and why; neither a replay nor a rebuild opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingest.sql.query import select
from ingest.sql.quoting import sql_texts
from ingest.sql.rejects.replayed import dismissed
from pipelines.operations.listings import ALL, SUMMARY, Wanted, reject, relation, summary
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.rejects import REJECTS, create_rejects, merge_rejects, table_of


def dismiss(warehouse: Warehouse, ids: Sequence[str], *, by: str, why: str) -> list[list[Any]]:
    """Dismiss those rejects with these ids, or beginnings of ids, that are open; gives all of them
    by the columns REJECT.

    Raises ConfigError if an id is not that of exactly one reject; then none is dismissed.
    """
    with lease(warehouse, "gold"):
        chosen = [reject(warehouse, id_) for id_ in ids]
        whole = list(dict.fromkeys(str(listed[0]) for listed in chosen))
        rejected = relation(warehouse, ALL)
        if rejected is not None:
            wanted = f"id IN ({sql_texts(whole)}) AND status = 'open'"
            _mark(warehouse, select(f"({rejected})", wanted), by=by, why=why)
        return [reject(warehouse, id_) for id_ in whole]


def dismiss_all(
    warehouse: Warehouse, *, source: str | None, code: str | None, by: str, why: str
) -> list[list[Any]]:
    """Dismiss every open reject of a source and with a code (None: any); gives how many there were
    of each kind, by the columns SUMMARY."""
    wanted = Wanted(source, code, "open")
    with lease(warehouse, "gold"):
        done = summary(warehouse, wanted)
        rejected = relation(warehouse, wanted)
        if done and rejected is not None:
            _mark(warehouse, rejected, by=by, why=why)
    status = SUMMARY.index("status")
    return [[*kind[:status], "dismissed", *kind[status + 1 :]] for kind in done]


def _mark(warehouse: Warehouse, rejected: str, *, by: str, why: str) -> None:
    """Note by one statement that the rejects of a `relation` are dismissed."""
    create_rejects(warehouse)
    columns = [name for name, _ in REJECTS]
    now = dismissed(rejected, table_of(warehouse), by=by, why=why, columns=columns)
    merge_rejects(warehouse, now)
