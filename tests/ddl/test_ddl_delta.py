"""Reviewing DDL against a gold table: the cases of tests/ddl/review, and what holds for any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from sqlglot.tokens import TokenType

from ingest.ddl.columns import FAMILIES
from ingest.ddl.parse import Clause, Column, Statement, TableName, parse
from ingest.ddl.review import review
from ingest.ddl.risks import RISKS
from ingest.ddl.widening import widens
from ingest.sql.tables.alter import statements
from ingest.values.source_types import spark_type

TARGET = "`lake`.`gold`.`shop_parcel`"
OPTIONS = ("columns", "source_types", "declared", "exclude", "keys")


def read_cases() -> list[Any]:
    """Every case of tests/ddl/review, named by file and number."""
    return [
        pytest.param(case, id=f"{path.stem}-{number}")
        for path in sorted((Path(__file__).parent / "review").glob("*.yml"))
        for number, case in enumerate(YAML(typ="safe").load(path), 1)
    ]


@pytest.mark.parametrize("case", read_cases())
def test_statement_is_reviewed(case: dict[str, Any]) -> None:
    dialect = case.get("dialect", "mysql")
    statement = parse(case["sql"], dialect=dialect)
    options = {name: case[name] for name in OPTIONS if name in case} | {"dialect": dialect}
    found = review(statement, **options)
    assert (found.kind, found.risk) == (case["kind"], case["risk"])
    assert [
        (outcome.clause.kind, outcome.risk, outcome.note, statements(TARGET, outcome.proposed))
        for outcome in found.clauses
    ] == [
        (clause["kind"], clause["risk"], clause.get("note"), clause.get("proposed", []))
        for clause in case["clauses"]
    ]
    assert found.proposed == tuple(c for outcome in found.clauses for c in outcome.proposed)
    if not any(clause.if_not_exists or clause.if_exists for clause in statement.clauses):
        # What the source had tells how large the risk is, and changes nothing of what is done.
        options.pop("source_types", None)
        assert review(statement, **options).proposed == found.proposed


def test_columns_that_are_added_one_after_the_other_are_one_commit() -> None:
    added = ", ".join(f"ADD COLUMN c{number} INT" for number in range(3000))
    found = review(parse(f"ALTER TABLE t {added}"), columns={"id": "int"})
    (text,) = statements("`t`", found.proposed)
    assert text.startswith("ALTER TABLE `t` ADD COLUMNS (`c0` int, `c1` int, ")
    assert text.endswith("`c2999` int)")
    mixed = review(
        parse(
            "ALTER TABLE t ADD COLUMN a INT, DROP COLUMN b, ADD COLUMN `c)` INT, ADD COLUMN d INT"
        ),
        columns={"b": "int"},
    )
    assert statements("`t`", mixed.proposed) == [
        "ALTER TABLE `t` ADD COLUMNS (`a` int)",
        "ALTER TABLE `t` DROP COLUMN `b`",
        "ALTER TABLE `t` ADD COLUMNS (`c)` int, `d` int)",
    ]


WIDER = {
    "tinyint": "smallint int bigint double decimal(10,0) decimal(12,2) decimal(20,0)",
    "smallint": "int bigint double decimal(10,0) decimal(12,2) decimal(20,0)",
    "int": "bigint double decimal(10,0) decimal(12,2) decimal(20,0)",
    "bigint": "decimal(20,0)",
    "float": "double",
    "date": "timestamp_ntz",
    "decimal(9,0)": "decimal(10,0) decimal(11,2) decimal(12,2) decimal(20,0)",
    "decimal(10,0)": "decimal(12,2) decimal(20,0)",
    "decimal(11,2)": "decimal(12,2)",
    "double": "",
    "timestamp": "",
    "timestamp_ntz": "",
    "string": "",
    "binary": "",
    "boolean": "",
    "decimal(12,2)": "",
    "decimal(20,0)": "",
}
"""What Delta 4.4.0 accepted when each of these pairs was tried on a table."""


def test_widening_is_what_delta_accepts() -> None:
    found = {old: {new for new in WIDER if new != old and widens(old, new)} for old in WIDER}
    assert found == {old: set(wider.split()) for old, wider in WIDER.items()}


TABLE = TableName(None, None, "t")
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(NAMES, NAMES)
def test_any_name_is_quoted(old: str, new: str) -> None:
    """Spark reads back the very names, whatever they hold."""
    clauses = (
        Clause(kind="rename_column", table=TABLE, column=Column(name=old), new_name=new),
        Clause(kind="drop_column", table=TABLE, column=Column(name=new)),
        Clause(kind="add_column", table=TABLE, column=Column(name=old, type="int")),
        Clause(kind="modify_column", table=TABLE, column=Column(name=old, type="bigint")),
    )
    statement = Statement(text="", table=TABLE, clauses=clauses)
    found = review(statement, columns={old: "int"})
    kept = old.lower() == new.lower()
    expected = [[old], [old], [old]] if kept else [[old, new], [new], [old], [old]]
    names = [
        [token.text for token in tokens if token.token_type is TokenType.IDENTIFIER]
        for text in statements("`t`", found.proposed)
        for tokens in [sqlglot.tokenize(text, read="databricks")]
    ]
    assert names == [["t", *expected_names] for expected_names in expected]


GOLD = {"id": "bigint", "a": "int", "b": "string", "c": "decimal(10,2)", "d": "date"}
CHANGES = st.sampled_from(
    [
        f"{verb} {name}{rest}"
        for name in ("a", "B", "e", "id")
        for verb, rest in [
            ("ADD", " BIGINT"),
            ("ADD", " VARCHAR(9)"),
            ("DROP", ""),
            ("MODIFY", " BIGINT"),
            ("MODIFY", " TEXT"),
            ("CHANGE", " f DATE"),
            ("RENAME COLUMN", " TO a"),
        ]
    ]
)


@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_proposals_run_one_after_the_other(changes: list[str]) -> None:
    """Each proposed statement fits the table that those before it leave; keys stay, or begin anew
    at once with another type."""
    statement = parse("ALTER TABLE t " + ", ".join(changes))
    found = review(statement, columns=GOLD, keys=["id"])
    assert RISKS.index(found.risk) == max(RISKS.index(outcome.risk) for outcome in found.clauses)
    table, key = dict(GOLD), "id"
    dropped = None
    for text in statements("`t`", found.proposed):
        words = text.removeprefix("ALTER TABLE `t` ").replace("`", "").split()
        if words[:2] == ["ADD", "COLUMNS"]:
            for added in " ".join(words[2:])[1:-1].split(", "):
                name, type_ = added.split()
                assert dropped in (None, name)
                dropped = None
                assert name.lower() not in {known.lower() for known in table}
                table[name] = type_
        elif words[:2] == ["DROP", "COLUMN"]:
            assert dropped is None
            dropped = words[2] if words[2] == key else None
            del table[words[2]]
        elif words[:2] == ["RENAME", "COLUMN"]:
            assert words[4].lower() not in {known.lower() for known in table}
            table[words[4]] = table.pop(words[2])
            key = words[4] if words[2] == key else key
        else:
            assert dropped is None
            assert words[:2] == ["ALTER", "COLUMN"]
            assert widens(table[words[2]], words[4])
            table[words[2]] = words[4]
    assert dropped is None and key in table


@pytest.mark.parametrize(
    ("dialect", "gold", "before", "after", "risk"),
    [
        ("mysql", "int", "int(11)", "smallint", "destructive"),
        ("mysql", "int", "smallint", "int", "widening"),
        ("mysql", "int", None, "tinyint", "destructive"),
        ("mysql", "int", None, "int not null", "none"),
        ("mysql", "bigint", "bigint", "bigint not null", "none"),
        ("mysql", "string", "varchar(80)", "varchar(20)", "destructive"),
        ("mysql", "string", "varchar(80)", "text", "widening"),
        ("mysql", "string", "longtext", "text", "destructive"),
        ("mysql", "string", "enum('a','b')", "enum('a')", "destructive"),
        ("mysql", "timestamp_ntz", "datetime", "datetime(6)", "widening"),
        ("mysql", "timestamp_ntz", "datetime(6)", "datetime", "destructive"),
        ("mysql", "double", "double", "float", "destructive"),
        ("mysql", "decimal(10,2)", "decimal(10,2)", "decimal(8,2)", "destructive"),
        ("mysql", "string", "varchar(20)", "int", "destructive"),
        ("oracle", "string", "VARCHAR2(40)", "VARCHAR2(400)", "widening"),
        ("oracle", "string", "VARCHAR2(400)", "VARCHAR2(40)", "destructive"),
        ("oracle", "decimal(10,0)", "NUMBER(10)", "NUMBER(5)", "destructive"),
        ("oracle", "timestamp_ntz", "TIMESTAMP", "TIMESTAMP(3)", "destructive"),
        ("oracle", "timestamp_ntz", "TIMESTAMP(3)", "TIMESTAMP", "widening"),
        ("postgres", "string", "character varying(80)", "varchar(20)", "destructive"),
        ("postgres", "string", "varchar(80)", "varchar", "widening"),
        ("postgres", "string", "text", "varchar(80)", "destructive"),
        ("postgres", "int", "integer", "smallint", "destructive"),
        ("postgres", "int", "int2", "int4", "widening"),
        ("postgres", "bigint", "bigint", "integer", "destructive"),
        ("postgres", "decimal(12,2)", "numeric(12,2)", "numeric(10,2)", "destructive"),
        ("tsql", "string", "nvarchar(max)", "nvarchar(50)", "destructive"),
        ("tsql", "string", "nvarchar(50)", "nvarchar(max)", "widening"),
        ("tsql", "timestamp_ntz", "datetime2", "datetime2(3)", "destructive"),
        ("tsql", "int", "int", "smallint", "destructive"),
        # What FLOAT and REAL mean, databases say differently.
        ("tsql", "double", "float", "real", "destructive"),
        ("tsql", "double", "real", "float", "widening"),
        ("tsql", "double", "float(53)", "float", "none"),
        ("postgres", "double", "double precision", "float", "none"),
        ("postgres", "double", "real", "float", "widening"),
        ("mysql", "double", "double", "real", "none"),
        ("mysql", "double", "double", "float", "destructive"),
        # Declared wider than the source has it, gold stays: the source's values were cut all the
        # same.
        ("mysql", "string", "bigint", "int", "destructive"),
        ("mysql", "string", "decimal(10,2)", "decimal(8,2)", "destructive"),
        ("mysql", "string", "int", "bigint", "widening"),
    ],
)
def test_narrowing_is_destructive(
    dialect: str, gold: str, before: str | None, after: str, risk: str
) -> None:
    change = {"postgres": "ALTER COLUMN c TYPE", "tsql": "ALTER COLUMN c"}.get(dialect, "MODIFY c")
    statement = parse(f"ALTER TABLE t {change} {after}", dialect=dialect)
    stays = spark_type(after.removesuffix(" not null"), FAMILIES[dialect]) != gold
    found = review(
        statement,
        columns={"c": gold},
        source_types={} if before is None else {"C": before},
        declared={"c": gold} if stays and gold == "string" else {},
        dialect=dialect,
    )
    assert found.risk == risk
