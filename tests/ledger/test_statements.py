"""What of silver's statements is a schema change: those of a snapshot say how tables are."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.position import SNAPSHOT, STREAMED
from pipelines.ledger.statements import _read

SHOP = Source.model_validate({"name": "shop", "format": "debezium", "files": {"path": "x"}})


def row(statement: str, phase: int) -> dict[str, Any]:
    return {
        **{"db": "shop", "schema": None, "table": "orders", "ddl": statement, "op": "ddl"},
        **{"dialect": "mysql", "format": "debezium", "micros": 1_700_000_000_000_000},
        "pos": [0, phase, 3, 500, 0, 0, 0, 7, 1, 0, 1],
    }


@pytest.mark.parametrize(
    ("statement", "in_snapshot"),
    [
        ("DROP TABLE IF EXISTS `shop`.`orders`", False),
        ("CREATE TABLE `orders` (`id` int NOT NULL, PRIMARY KEY (`id`))", True),
        ("USE `shop`", False),
        ("SET character_set_server=utf8mb4, collation_server=utf8mb4_bin", False),
        ("ALTER TABLE orders ADD COLUMN x int", False),
    ],
)
def test_of_a_snapshot_only_a_create_is_entered(statement: str, in_snapshot: bool) -> None:
    assert bool(_read(SHOP, row(statement, SNAPSHOT))) == in_snapshot
    assert len(_read(SHOP, row(statement, STREAMED))) == 1
