"""What is counted, listed and asked of the ledger: SQL takes it as it is written."""

from __future__ import annotations

import pytest
import sqlglot

from ingest.position import TOP
from ingest.sql.counts import report, status, waiting
from ingest.sql.ledger import columns_sent, entries, statements
from ingest.sql.rejects import listings

CHANGES = "SELECT * FROM silver.cdc WHERE kind = 'change'"
OF_TABLE: dict[tuple[str | None, ...], int] = {("a", None, "s", "it's"): 3}
COLUMNS = ("id", "code", "value")
LISTED = listings.narrowed(
    [
        listings.replayed(
            listings.of_silver("silver.cdc", "it's"), "gold._rejects", columns=COLUMNS
        ),
        listings.of_gold("gold._rejects", None, columns=COLUMNS),
    ],
    columns=COLUMNS,
    code="null_key",
    status=None,
    id_="a'",
)
QUERIES = {
    "by_source": status.by_source("silver.cdc"),
    "decoded_and_gaps": status.decoded_and_gaps("silver.cdc"),
    "decoded_changes": status.decoded_changes("silver.cdc", "it's"),
    "messages_known": status.messages_known(["bronze.messages", "silver.cdc"]),
    "open_decode_rejects": status.open_decode_rejects("silver.cdc", "gold._rejects"),
    "open_decode_rejects, no log": status.open_decode_rejects("silver.cdc", None),
    "stepped_back": status.stepped_back("silver.cdc", ["it's"]),
    "gaps": status.gaps("silver.cdc", most=3),
    "open_rejects": status.open_rejects("gold._rejects"),
    "last_runs": status.last_runs("gold._progress", but="*"),
    "rows_of_epochs": status.rows_of_epochs("gold.t", below=3),
    "undecoded": waiting.undecoded("bronze.messages", "silver.cdc", sources=["it's"]),
    "undecoded, no silver": waiting.undecoded("bronze.messages", None, sources=["it's"]),
    "unapplied": waiting.unapplied(
        "silver.cdc",
        [
            f"{waiting.beyond({'a': 3, 'b': 0})} AND NOT {waiting.up_to(OF_TABLE)}",
            waiting.above(OF_TABLE),
        ],
    ),
    "newest": report.newest("bronze.messages"),
    "kinds": report.kinds("silver.cdc"),
    "runs": report.runs("gold._runs", most=3),
    "by_hour": report.by_hour("gold._progress", but="*", most=3),
    "slowest": report.slowest("gold._progress", but="*", most=3),
    "late": report.late("gold._progress", but="*", most=3),
    "rejects": report.rejects(LISTED, most=3, example=3),
    "listed": LISTED,
    "in_order": listings.in_order(LISTED, columns=COLUMNS, limit=3, values=False),
    "like": listings.like(LISTED, "a'"),
    "ids_like": listings.ids_like(LISTED, ["ab", "cd"], most=3),
    "summary": listings.summary(LISTED, kind=("code",)),
    "entries": entries.in_order("gold._ddl", columns=COLUMNS, status="pending"),
    "counts": entries.counts("silver.cdc", "kind = 'change'", terms=["batch = 1", "batch = 2"]),
    "holding_a_value": entries.holding_a_value("gold.t", ["a b"]),
    "last_known": columns_sent.last_known(CHANGES, ["a'b"]),
    "first_sent": columns_sent.first_sent(CHANGES, ["a'b"]),
    "new_rows_above": columns_sent.new_rows_above(CHANGES, [TOP, TOP]),
    "first_position": columns_sent.first_position(
        CHANGES,
        f"{columns_sent.sends('a')} AND {columns_sent.typed_as('a', 'int', schemas=CHANGES)}",
    ),
    "schema_of_last": columns_sent.schema_of_last(CHANGES, below=TOP),
    "columns_of_schema": columns_sent.columns_of_schema(CHANGES, "it's"),
    "in_batches": statements.in_batches("silver.cdc", source="it's", first=1, last=2),
}


@pytest.mark.parametrize("name", QUERIES)
def test_is_sql(name: str) -> None:
    assert sqlglot.parse_one(QUERIES[name], read="spark") is not None
    assert "${" not in QUERIES[name]
