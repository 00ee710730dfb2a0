"""What is said of changes that are set aside: SQL takes it as it is written."""

from __future__ import annotations

import pytest
import sqlglot

from ingest.sql.projection import Projection
from ingest.sql.query import select
from ingest.sql.rejects import left_out, reasons, replayed, retyped, rows, waiting

PROJECTION = Projection(
    keys=("id",), columns={"id": "int", "it's": "decimal(9,2)"}, label="shop.order's", source="lab"
)
EVENTS = "WITH found AS (SELECT * FROM silver.cdc) SELECT * FROM found"
ROWS = left_out.as_rows([EVENTS, EVENTS], source="lab", target="order's")
CLAIMED = rows.claimed("gold._rejects", source="lab", target="order's")
QUERIES = {
    "as_rejects": rows.as_rejects(EVENTS, source="lab", target="order's", more=", voided"),
    "claimed": CLAIMED,
    "left_aside": rows.left_aside("gold._rejects", source="lab", target="t", shared=False),
    "left_aside, shared": rows.left_aside("gold._rejects", source="lab", target="t", shared=True),
    "not_among": f"SELECT {rows.not_among(CLAIMED, silver='silver.cdc', source='lab')}",
    "targets_with": rows.targets_with("gold._rejects", source="lab", code="null_key"),
    "page_of": rows.page_of(
        "gold._rejects",
        source="lab",
        target="t",
        code=None,
        columns="id, code",
        after="it's",
        most=10,
        bytes_most=1_000,
    ),
    "replayed.as_rejects": replayed.as_rejects(
        "SELECT * FROM undecoded", "failed", source="it's", columns=["id", "error", "status"]
    ),
    "without_messages": replayed.without_messages(
        "bronze.messages",
        "source = 'it''s'",
        kept=replayed.messages(
            replayed.undecoded("silver.cdc", "gold._rejects", source="it's", code=None)
        ),
    ),
    "unfit": reasons.unfit(PROJECTION, EVENTS),
    "of_others": reasons.of_others(EVENTS, "SELECT * FROM held"),
    "baseless": reasons.baseless("(SELECT * FROM results)"),
    "beyond_horizon": reasons.beyond_horizon(EVENTS),
    "missing_order_key": reasons.missing_order_key(PROJECTION, EVENTS),
    "keyless": reasons.keyless(EVENTS),
    "without_set_aside": waiting.without_set_aside(EVENTS, CLAIMED),
    "without_set_aside, of keys": waiting.without_set_aside(
        EVENTS, CLAIMED, freed="SELECT key FROM k"
    ),
    "of_keys": waiting.of_keys(CLAIMED, EVENTS, keys="keys"),
    "unresolved": rows.unresolved("gold._rejects"),
    "misfits_in": select("gold._rejects", rows.misfits_in(["it's", "B"])),
    "without_results": waiting.without_results(CLAIMED, "results"),
    "resolved": waiting.resolved(waiting.without_results(CLAIMED, "results")),
    "baseless_among": waiting.baseless_among("results", "asked"),
    "free_keys": waiting.free_keys(
        EVENTS, CLAIMED, held="SELECT * FROM held", voided="false", soft=False
    ),
    "free_keys, soft": waiting.free_keys(
        EVENTS, CLAIMED, held="SELECT * FROM held", voided="pos < 7", soft=True
    ),
    "tables_of": waiting.tables_of("silver.cdc", CLAIMED, source="lab"),
    "left_out.unfit": left_out.unfit(PROJECTION, EVENTS, voided="false"),
    "not_voided": left_out.not_voided(reasons.baseless("results")),
    "lost": left_out.lost(EVENTS, "SELECT * FROM held", voided="false"),
    "as_rows": ROWS,
    "as_rows, none": left_out.as_rows([], source="lab", target="t"),
    "enter": left_out.enter(
        "gold._rejects", "found", at="TIMESTAMP '2026-01-01T00:00:00'", misfits=True
    ),
    "noted_at": left_out.noted_at("gold._rejects", source="lab", target="t", at="now()"),
    "resolve": left_out.resolve(
        "gold._rejects", source="lab", target="t", noted_at="x", now="y", but=("null_key",)
    ),
    "counted": left_out.counted(ROWS, "gold._rejects"),
    "typed_again": retyped.typed_again(PROJECTION, EVENTS, CLAIMED, rejects=True),
    "as_changes": retyped.as_changes(retyped.typed_again(PROJECTION, EVENTS, CLAIMED)),
    "as_changes, baseless": retyped.as_changes(
        retyped.typed_again(PROJECTION, EVENTS, CLAIMED, rejects=True), baseless="results"
    ),
    "numbers_that_ask_most": retyped.numbers_that_ask_most(
        "gold._rejects", source="lab", target="t"
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_is_sql(name: str) -> None:
    assert sqlglot.parse_one(QUERIES[name], read="spark") is not None
    assert "${" not in QUERIES[name]


def test_a_conflict_says_what_was_expected() -> None:
    assert "got one that another\\'s row holds" in rows.CONFLICT
