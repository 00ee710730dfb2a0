"""Queries in reading order: SQL takes them as they are written, whatever they are put into."""

from __future__ import annotations

import pytest
import sqlglot

from ingest.sql import key_changes
from ingest.sql.projection import Projection
from ingest.sql.query import query, union, union_all

PROJECTION = Projection(
    keys=("id", "shop"),
    columns={"id": "int", "shop": "string", "a b": "decimal(9,2)", "at": "timestamp"},
    label="shop.order's",
    source="lab",
)
PAIRS = key_changes.pairs(PROJECTION, "SELECT * FROM silver.cdc")
QUERIES = {
    "pairs": PAIRS,
    "few_pairs": key_changes.few_pairs(PAIRS, most=10, bytes_most=100),
    "pairs_with": key_changes.pairs_with(PAIRS, "some_keys"),
    "edges": key_changes.edges(PAIRS),
    "checksum": key_changes.checksum("found"),
    "contracted": key_changes.contracted("found"),
    "components": key_changes.components("found"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_is_sql_alone_and_within_another(name: str) -> None:
    text = QUERIES[name]
    assert sqlglot.parse_one(text, dialect="spark")
    assert sqlglot.parse_one(f"SELECT * FROM ({text}) t", dialect="spark")
    assert sqlglot.parse_one(union_all([text, text]), dialect="spark")


def test_names_each_step_before_the_last() -> None:
    assert query(only="SELECT 1") == "SELECT 1"
    assert query(a="SELECT 1 AS x", b="SELECT x + 1 AS y FROM a", c="SELECT y FROM b") == (
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT y FROM b"
    )


def test_unions_take_queries_that_name_steps() -> None:
    steps = query(a="SELECT 1 AS x", b="SELECT x FROM a")
    assert union([steps]) == f"({steps})"
    assert union([steps, steps]) == f"({steps}) UNION ({steps})"
    assert sqlglot.parse_one(f"SELECT DISTINCT x FROM ({union([steps])})", dialect="spark")
