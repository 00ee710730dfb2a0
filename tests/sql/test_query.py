"""Queries in reading order: SQL takes them as they are written, whatever they are put into."""

from __future__ import annotations

import pytest
import sqlglot

from ingest.position import TOP
from ingest.sql.fold import key_changes, late_history, late_keys
from ingest.sql.projection import Projection
from ingest.sql.query import query, union, union_all

PROJECTION = Projection(
    keys=("id", "shop"),
    columns={"id": "int", "shop": "string", "a b": "decimal(9,2)", "at": "timestamp"},
    label="shop.order's",
    source="lab",
)
PAIRS = key_changes.pairs(PROJECTION, "SELECT * FROM silver.cdc")
STORED = late_keys.stored_rows("gold.t", PROJECTION, soft=True)
QUERIES = {
    "pairs": PAIRS,
    "few_pairs": key_changes.few_pairs(PAIRS, most=10, bytes_most=100),
    "pairs_with": key_changes.pairs_with(PAIRS, "some_keys"),
    "not_told_apart": key_changes.not_told_apart(PROJECTION, "SELECT * FROM t", new=["a b", "id"]),
    "edges": key_changes.edges(PAIRS),
    "checksum": key_changes.checksum("found"),
    "contracted": key_changes.contracted("found"),
    "components": key_changes.components("found"),
    "held_by_others": late_keys.held_by_others("gold.t", PROJECTION, soft=True, versions=False),
    "stored_versions": late_keys.stored_versions("gold.t", PROJECTION, changes=PAIRS),
    "versions_below": late_keys.versions_below(
        "gold.t", PROJECTION, truncate=TOP, above="SELECT * FROM silver.cdc"
    ),
    "any_above": late_keys.any_above("SELECT * FROM t", "_pos < x"),
    "keys_named": late_keys.keys_named(PROJECTION, "SELECT * FROM silver.cdc"),
    "rows_below": late_keys.rows_below(
        STORED, PROJECTION, below="_pos < array(1L)", above="SELECT * FROM silver.cdc"
    ),
    "rows_at": late_keys.rows_at(STORED, [TOP, TOP], by_arrival=False),
    "without_copies": late_keys.without_copies(
        PAIRS, "SELECT * FROM silver.cdc", by_arrival=False, digest="digest"
    ),
    "to_judge": late_keys.to_judge(PAIRS, STORED, columns="t.marked", others=STORED),
    "named_verdicts": late_keys.named_verdicts(
        "found", kinds=("late", "stale"), named=("late",), most=10, bytes_most=100
    ),
    "few_keys": late_keys.few_keys(PAIRS, most=10, bytes_most=100),
    "named_above": late_keys.named_above(PROJECTION, "some_keys", earlier="SELECT * FROM t"),
    "with_groups": late_keys.with_groups("some_keys", "linked_keys"),
    "late_relation": late_keys.late_relation(PAIRS, found="some_keys", brought=PAIRS),
    "counts_of_refolded": late_keys.counts_of_refolded("found", "some_keys"),
    "prior_images": late_history.prior_images(
        "SELECT * FROM silver.cdc", "places", soft=False, above=3, overtaking="op = 'delete'"
    ),
    "since": late_history.since("SELECT * FROM silver.cdc", "places", key_changes=False),
    "events_of_keys": late_history.events_of_keys(
        PROJECTION, "SELECT * FROM silver.cdc", "some_keys", few=True, linked=False
    ),
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
