"""`gold._erasures`: who was taken out, when and why, and what shows that nothing is left.

Of a person it holds only a hash of the key, salted by the row's own id or keyed by the secret of
masks: enough to recognise an erasure that was begun, and to answer whether a key was erased.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime

from ingest.config.masks import MaskSecret
from ingest.sql.privacy.erasure import unproved
from pipelines.platform.rows import records
from pipelines.platform.upserts import upsert
from pipelines.platform.warehouse import Warehouse
from pipelines.telemetry.users import user

ERASURES = (
    ("id", "string", "of the erasure"),
    ("target", "string", "the target it was asked of"),
    ("source", "string", "the source that feeds it"),
    ("key_hash", "string", "of the key: an HMAC by the secret of masks, else SHA-256 with the id"),
    ("who", "string", "the user of the operating system, or of the platform"),
    ("at", "timestamp", "when it was begun, UTC"),
    ("reason", "string", "what was given as `--reason`"),
    ("gold", "bigint", "rows that went from the target"),
    ("silver", "bigint", "rows that went from silver"),
    ("rejects", "bigint", "rejects that went, or lost the bytes of their message"),
    ("bronze", "bigint", "messages that went"),
    ("status", "string", "`begun`, `erased`, or `proved` once no file holds anything of it"),
    ("proof", "string", "what was looked at for that, and what was found"),
    ("messages", "string", "the messages that went, as JSON: epoch, topic, partition, offset"),
    ("proved_at", "timestamp", "when that was, UTC"),
)
"""Column, type, meaning."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """One row; the columns of ERASURES."""

    id: str
    target: str
    source: str
    key_hash: str
    who: str
    at: datetime
    reason: str | None
    gold: int = 0
    silver: int = 0
    rejects: int = 0
    bronze: int = 0
    status: str = "begun"
    proof: str | None = None
    messages: str = "[]"
    proved_at: datetime | None = None

    @property
    def went(self) -> list[tuple[int, str, int, int]]:
        """The removed messages."""
        return [(row[0], row[1], row[2], row[3]) for row in json.loads(self.messages)]


def write(warehouse: Warehouse, erasure: Erasure) -> Erasure:
    """Write a row in its present state; gives the row."""
    columns = [(name, type_) for name, type_, _ in ERASURES]
    warehouse.create("gold", "_erasures", columns)
    upsert(warehouse, "gold", "_erasures", columns=columns, rows=[astuple(erasure)])
    return erasure


def opened(
    warehouse: Warehouse,
    source: str,
    target: str,
    *,
    key: Mapping[str, str],
    reason: str | None,
    secret: MaskSecret | None,
) -> Erasure:
    """The erasure of this key that was begun and not proved yet; otherwise a new one."""
    if warehouse.exists("gold", "_erasures"):
        name = warehouse.name("gold", "_erasures")
        found = records(warehouse.session.sql(unproved(name, target=target)))
        for row in found:
            begun = Erasure(**row)
            if begun.key_hash == key_hash(key, begun.id, secret):
                return replace(begun, reason=reason or begun.reason)
    number = uuid.uuid4().hex
    return Erasure(
        id=number,
        target=target,
        source=source,
        key_hash=key_hash(key, number, secret),
        who=user(warehouse),
        at=datetime.now(UTC),
        reason=reason,
    )


def key_hash(key: Mapping[str, str], salt: str, secret: MaskSecret | None) -> str:
    """The hash of a key."""
    text = json.dumps(sorted((name.lower(), value) for name, value in key.items()))
    if secret is not None:
        return secret.digest(text)
    return hashlib.sha256(f"{salt}\n{text}".encode()).hexdigest()
