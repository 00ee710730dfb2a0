"""One row of `gold._ddl` and the table that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.names import SourceTable
from ingest.order import Pos
from pipelines.tables import Warehouse

DDL = (
    ("id", "string"),
    ("source", "string"),
    ("db", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("target", "string"),
    ("status", "string"),
    ("class", "string"),
    ("kind", "string"),
    ("statement", "string"),
    ("proposed", "string"),
    ("pos", "array<bigint>"),
    ("event_time", "timestamp"),
    ("waiting_rows", "bigint"),
    ("decided_by", "string"),
    ("decided_at", "timestamp"),
    ("why", "string"),
    ("at", "timestamp"),
    ("version", "bigint"),
)
STATUSES = ("pending", "approved", "applied", "rejected", "ignored", "superseded", "failed")
_POLICY = "policy"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the ledger, before it is written."""

    id: str
    table: SourceTable
    target: str | None = None
    status: str = "pending"
    risk: str = "unparsed"
    kind: str = "unparsed"
    statement: str | None = None
    proposed: tuple[str, ...] = ()
    pos: Pos | None = None
    event_time: datetime | None = None
    why: str | None = None

    def row(self, at: datetime) -> tuple[Any, ...]:
        """As a row of DDL. What the policy settled says so."""
        settled = self.status != "pending"
        return (
            self.id,
            self.table.source,
            self.table.db,
            self.table.schema,
            self.table.table,
            self.target,
            self.status,
            self.risk,
            self.kind,
            self.statement,
            ";\n".join(self.proposed) or None,
            list(self.pos) if self.pos else None,
            self.event_time,
            None,
            _POLICY if settled else None,
            at if settled else None,
            self.why,
            at,
            1,
        )


def create_ddl(warehouse: Warehouse) -> None:
    """`gold._ddl`."""
    warehouse.create("gold", "_ddl", DDL)
