"""What the driver takes of a target's changes at once; Spark's workers see to what is more."""

from __future__ import annotations

from typing import cast

from ingest.fold.fold import Key
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse

CHANGES = 50_000
BYTES = 64 << 20
"""Of images."""
OF_A_ROW = 512
"""Bytes of a change beside its images."""
KEYS, KEY_BYTES = 50_000, 1_000
"""Keys, and the bytes of each."""
KEY_CHANGES = 100_000


def too_large(key: str) -> str:
    """SQL that is true for a key (array of texts) that the driver does not take."""
    return f"octet_length(array_join({key}, '')) > {KEY_BYTES}"


def few_keys(warehouse: Warehouse, keys: str) -> set[Key] | None:
    """The keys (column `key`) that SQL gives; None where that is too much for the driver."""
    distinct = f"SELECT DISTINCT key FROM ({keys}) LIMIT {KEYS + 1}"
    told = f"SELECT IF({too_large('key')}, NULL, key) FROM ({distinct})"
    found = {None if key is None else tuple(key) for (key,) in rows(warehouse.session.sql(told))}
    return None if None in found or len(found) > KEYS else cast("set[Key]", found)
