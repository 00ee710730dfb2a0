"""Which types the columns of a target get, where the messages tell more than one."""

from __future__ import annotations

import pytest

from ingest.entries import Tables
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.routes import route
from ingest.settings import DdlPolicy
from pipelines.targets import wanted_columns


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        (("int",), "int"),
        (("int", "bigint"), "bigint"),
        (("bigint", "int"), "bigint"),
        (("decimal(20,0)", "bigint", "int"), "decimal(20,0)"),
        (("decimal(10,2)", "decimal(12,2)", "decimal(10,2)"), "decimal(12,2)"),
        # Neither holds the other's values: the last word counts.
        (("int", "string"), "string"),
        (("string", "int"), "int"),
    ],
)
def test_the_widest_type_that_came(types: tuple[str, ...], wanted: str) -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, "cows", ddl=DdlPolicy())
    assert way is not None
    came = [[ColumnType("n", type_, type_)] for type_ in types]
    assert wanted_columns(way, ("id",), came, [("id", "n")])["n"] == wanted


def test_names_of_the_configuration_are_spelt_as_the_messages_do() -> None:
    declared = Tables.model_validate(
        {"source": "farm", "tables": [{"from": "*", "columns": {"WEIGHT": "int", "Hay": "int"}}]}
    )
    way = route(declared, "barn", None, "cows", ddl=DdlPolicy())
    assert way is not None
    came = [[ColumnType("PRICE", "decimal(10,2)", "decimal(10,2)")]]
    found = wanted_columns(way, ("id",), came, [("id", "price", "weight")])
    expected = {"id": "string", "price": "decimal(10,2)", "weight": "int", "Hay": "int"}
    assert found == expected


def test_columns_of_one_row_that_differ_only_in_case_are_refused() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, "cows", ddl=DdlPolicy())
    assert way is not None
    with pytest.raises(TableError, match="`price` and `Price` differ only in case"):
        wanted_columns(way, ("id",), [], [("id", "price", "Price")])


def test_two_spellings_that_never_meet_in_a_row_are_one_column() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, "cows", ddl=DdlPolicy())
    assert way is not None
    found = wanted_columns(way, ("id",), [], [("id", "price"), ("id", "Price")])
    assert found == {"id": "string", "price": "string"}
