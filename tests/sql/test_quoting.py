"""Names and texts in SQL: nothing in them is taken for SQL."""

from __future__ import annotations

from ingest.sql.quoting import equal, quoted, quoted_list, sql_text, sql_texts, typed_columns


def test_names() -> None:
    assert quoted("a.b `c") == "`a.b ``c`"
    assert quoted("lake", "gold", "a.b") == "`lake`.`gold`.`a.b`"
    assert quoted_list(["a", "b c"]) == "`a`, `b c`"
    assert typed_columns([("a b", "int"), ("c", "string")]) == "`a b` int, `c` string"


def test_texts() -> None:
    assert sql_text(r"it's \ ${HOME}") == r"'it\'s \\ \u0024{HOME}'"
    assert sql_texts(["a", "b"]) == "'a', 'b'"


def test_columns_that_equal_texts() -> None:
    assert equal(source="it's", target=None, stage="gold") == (
        r"source = 'it\'s' AND stage = 'gold'"
    )
