"""`ingest rejects dismiss`: what was set aside and is looked after, so that what is open can alarm.

A dismissed reject stays, with who dismissed it and why; neither a replay nor a rebuild opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ingest.sql.casts import sql_text
from pipelines.operations.listings import REJECT, Wanted, one, rejects
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.rejects import log, present


def dismiss(warehouse: Warehouse, ids: Sequence[str], *, by: str, why: str) -> list[list[Any]]:
    """Dismiss the rejects with these ids, or beginnings of ids; gives them as REJECT has them.

    Raises ConfigError where an id is not that of one reject; then none is dismissed.
    """
    with lease(warehouse, "gold"):
        chosen = [one(rejects(warehouse, Wanted(id=id_)), id_, what="reject") for id_ in ids]
        known = _logged(warehouse, [str(listed[0]) for listed in chosen])
        rows = {}
        for listed in chosen:
            told = dict(zip(REJECT, listed, strict=True))
            if told["status"] != "dismissed":
                told["error"] = f"{told['error']} [dismissed by {by}: {why}]"
            told["status"] = "dismissed"
            if told["stage"] == "decode":
                # Its bytes stand in silver.
                told["value"] = None
            version, misfits = known.get(told["id"], (0, None))
            now = {"at": datetime.now(UTC), "version": version + 1, "misfits": misfits}
            rows[told["id"]] = {**told, **now}
        log(warehouse, list(rows.values()))
        return [one(rejects(warehouse, Wanted(id=id_)), id_, what="reject") for id_ in rows]


def _logged(warehouse: Warehouse, ids: Sequence[str]) -> dict[str, tuple[int, Any]]:
    """The version and the misfits of those that stand in gold's table."""
    if not warehouse.exists("gold", "_rejects"):
        return {}
    listed = ", ".join(map(sql_text, ids))
    found = warehouse.session.sql(
        f"SELECT id, version, misfits FROM ({present(warehouse)}) WHERE id IN ({listed})"
    ).collect()
    return {id_: (version, misfits) for id_, version, misfits in found}
