"""`ingest ddl` and `ingest rejects`: what waits for a decision, and what was set aside.

`gold._ddl` and `gold._rejects` are logs; of each id the row with the highest version is the present
one. Messages that could not be decoded stand in silver and are listed with those of gold.
"""

from __future__ import annotations

from typing import Any

from ingest.casts import sql_text
from ingest.errors import ConfigError, Mistake
from ingest.mistakes import unknown_word
from pipelines.ddl_entries import STATUSES
from pipelines.results import rows
from pipelines.tables import Warehouse, quote

DDL = (
    *("id", "source", "db", "schema", "table", "target", "status", "class", "kind"),
    *("statement", "proposed", "pos", "event_time", "waiting_rows"),
    *("decided_by", "decided_at", "why"),
)
DDL_SHOWN = ("id", "status", "class", "kind", "source", "target", "statement", "proposed")
REJECTS = (
    *("id", "stage", "source", "topic", "partition", "offset", "row", "target"),
    *("code", "error", "value", "status"),
)
REJECTS_SHOWN = (
    *("id", "stage", "status", "source", "topic", "partition", "offset", "row", "target"),
    *("code", "error"),
)


def ddl(warehouse: Warehouse, *, status: str | None = None) -> list[list[Any]]:
    """The ledger's entries as they stand, in order of position: the columns DDL.

    Raises ConfigError for a status that there is not.
    """
    if status is not None and status not in STATUSES:
        text = unknown_word("--status", status, STATUSES)
        raise ConfigError([Mistake("command line", None, text)])
    if not warehouse.exists("gold", "_ddl"):
        return []
    wanted = "true" if status is None else f"status = {sql_text(status)}"
    found = warehouse.session.sql(
        f"SELECT {_names(DDL)} FROM ({_present(warehouse, '_ddl', DDL)}) "
        f"WHERE {wanted} ORDER BY source, pos, id"
    )
    return list(rows(found))


def rejects(warehouse: Warehouse) -> list[list[Any]]:
    """What could not be decoded or typed, in order of place: the columns REJECTS."""
    selects = []
    if warehouse.exists("silver", "cdc"):
        names = "source, topic, `partition`, offset, `row`"
        selects.append(
            f"SELECT sha1(concat_ws('/', {names})) AS id, 'decode' AS stage, {names}, "
            "CAST(NULL AS string) AS target, error_code AS code, error, value, 'open' AS status "
            f"FROM {warehouse.name('silver', 'cdc')} WHERE kind = 'reject'"
        )
    if warehouse.exists("gold", "_rejects"):
        present = _present(warehouse, "_rejects", REJECTS)
        selects.append(f"SELECT {_names(REJECTS)} FROM ({present})")
    if not selects:
        return []
    found = warehouse.session.sql(
        f"SELECT {_names(REJECTS)} FROM ({' UNION ALL '.join(selects)}) "
        "ORDER BY source, topic, `partition`, offset, `row`, stage, target"
    )
    return list(rows(found))


def one(listed: list[list[Any]], id_: str, *, what: str) -> list[Any]:
    """The row with this id, which may be shortened as long as it is one row's alone."""
    found = [row for row in listed if str(row[0]).startswith(id_)]
    exact = [row for row in found if row[0] == id_]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    got = "none" if not found else f"{len(found)}"
    text = f"expected the id of one {what}, `{id_}` is that of {got}; `list` shows them"
    raise ConfigError([Mistake("command line", None, text)])


def _present(warehouse: Warehouse, table: str, columns: tuple[str, ...]) -> str:
    return (
        f"SELECT last.* FROM (SELECT max_by(struct({_names(columns)}), version) AS last "
        f"FROM {warehouse.name('gold', table)} GROUP BY id)"
    )


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(map(quote, columns))
