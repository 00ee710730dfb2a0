"""Reading DDL: the cases of tests/ddl/parse, and what holds for any text."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ingest.ddl.dialect import guess_dialect
from ingest.ddl.parse import (
    Clause,
    Column,
    Statement,
    TableName,
    dialect_of,
    ghost,
    identity,
    is_truncate,
    parse,
)
from ingest.ddl.risks import KINDS, RISKS

HERE = Path(__file__).parent


def read_cases(folder: str) -> list[Any]:
    """Every case of a folder's files, named by file and number."""
    return [
        pytest.param(case, id=f"{path.stem}-{number}")
        for path in sorted((HERE / folder).glob("*.yml"))
        for number, case in enumerate(YAML(typ="safe").load(path), 1)
    ]


_PLAINLY_ADDED = ("if_not_exists", False)


def plain(thing: Any) -> Any:
    """A record as the YAML writes it: nothing that is not said."""
    if isinstance(thing, TableName):
        return list(thing)
    if isinstance(thing, tuple):
        return [plain(part) for part in thing]
    if isinstance(thing, Clause | Column):
        said = {field.name: getattr(thing, field.name) for field in fields(thing)}
        usual = {name: plain(value) for name, value in said.items() if value not in (None, ())}
        return {name: value for name, value in usual.items() if (name, value) != _PLAINLY_ADDED}
    return thing


@pytest.mark.parametrize("case", read_cases("parse"))
def test_statement_is_read(case: dict[str, Any]) -> None:
    found = parse(case["sql"], dialect=case["dialect"], **case.get("given", {}))
    assert {
        "kind": found.kind,
        "risk": found.risk,
        "table": plain(found.table),
        "ghost": found.ghost,
        "clauses": plain(found.clauses),
    } == {
        "kind": case["kind"],
        "risk": case["risk"],
        "table": case["table"],
        "ghost": case.get("ghost"),
        "clauses": case["clauses"],
    }
    assert found.text == case["sql"]


def test_cases_cover_every_kind() -> None:
    clauses = [clause for case in read_cases("parse") for clause in case.values[0]["clauses"]]
    assert {clause["kind"] for clause in clauses} == set(KINDS)


@pytest.mark.parametrize("case", read_cases("parse"))
def test_truncates_are_told_without_parsing(case: dict[str, Any]) -> None:
    assert is_truncate(case["sql"]) == (case["clauses"][0]["kind"] == "truncate")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("TRUNCATE t", True),
        ("truncate table `a b`.t", True),
        ("/* x */ -- y\n # z\n ; Truncate /* gh-ost */ Table t", True),
        ("TRUNCATE/**/TABLE t", True),
        ("truncate`t`", True),
        ("TRUNCATE TABLE [dbo].[t]", True),
        ("/*!50000 TRUNCATE TABLE t */", True),
        ("/*!999999 TRUNCATE TABLE t */", False),
        ("TRUNCATE", False),
        ("TRUNCATED t", False),
        ("-- TRUNCATE t", False),
        ("/* TRUNCATE t */ DROP TABLE t", False),
        ("ALTER TABLE t TRUNCATE PARTITION p", False),
        ("SELECT TRUNCATE(1.5, 1)", False),
        ("TRUNCATE CLUSTER c", False),
        ("TRUNCATE TABLE dbo.t WITH (PARTITIONS (1, 3 TO 5))", False),
        ("TRUNCATE TABLE t PARTITION (dt = '2026-01-01')", False),
        ("TRUNCATE TABLE t PARTITION(p1, p2);", False),
        ("TRUNCATE TABLE `partition`", True),
        ("TRUNCATE TABLE t /* not PARTITION (p) */ -- nor PARTITION (q)", True),
        ("TRUNCATE TABLE t; ALTER TABLE u DROP PARTITION (p)", True),
        ("", False),
        (None, False),
    ],
)
def test_truncate(sql: str | None, expected: bool) -> None:
    assert is_truncate(sql) is expected


def test_reading_takes_linear_time() -> None:
    """Quadratic, each of these would take minutes."""
    assert parse("/*! " + "/* " * 200_000).kind == "unparsed"
    assert parse("/*! '" + "\\'" * 200_000).kind == "unparsed"
    assert parse("ALTER TABLE t ADD " + "(" * 100_000).kind == "unparsed"
    renames = ", ".join(f"RENAME COLUMN c{n} TO c{n + 1}" for n in range(8_000))
    assert parse("ALTER TABLE t " + renames).kind == "rename_column"
    swaps = ", ".join(
        f"RENAME COLUMN a{n} TO b{n}, RENAME COLUMN b{n} TO a{n}" for n in range(4_000)
    )
    assert len(parse("ALTER TABLE t " + swaps).clauses) == 12_000
    parens = f"DEFAULT {'(' * 100_000}1{')' * 100_000}"
    assert parse(f"ALTER TABLE t ADD a INT {parens}").columns == ()
    casts = "ALTER TABLE t ADD a int DEFAULT 1" + "::int" * 40_000
    assert parse(casts, dialect="postgres").kind == "add_column"
    assert parse("EXEC sp_who 'a' " * 15_000, dialect="tsql").kind == "other"
    assert guess_dialect("/* " * 100_000, schema="s") == "postgres"
    assert guess_dialect("'" + "\\'" * 100_000, schema="s") == "postgres"
    assert guess_dialect("[a" * 100_000 + '"' * 99_999, schema="s") == "postgres"
    assert not is_truncate("/* a */ \n" * 20_000 + "/*")
    assert not is_truncate(" " * 200_000 + "TRUNCATE" + " " * 200_000)
    assert is_truncate("TRUNCATE t " + "PARTITION " * 50_000 + "/* " * 50_000)


def test_a_long_default_is_no_number() -> None:
    found = parse(f"ALTER TABLE t ADD a INT DEFAULT 0x{'f' * 8_000}").clauses[0].column
    assert found is not None and found.default is None and found.expression is not None


@pytest.mark.parametrize(
    ("db_type", "dialect"),
    [
        ("MYSQL", "mysql"),
        ("ob_mysql", "mysql"),
        ("OCEANBASE", "mysql"),
        ("MariaDB", "mysql"),
        ("oracle", "oracle"),
        ("OB_ORACLE", "oracle"),
        ("OB_IN_ORACLE_MODE", "oracle"),
        ("postgresql", "postgres"),
        ("sqlserver", "tsql"),
        ("SQL Server", "tsql"),
        ("tsql", "tsql"),
        ("DB2_LUW", "db2"),
        ("", "mysql"),
        (None, "mysql"),
    ],
)
def test_dialect_of_a_database(db_type: str | None, dialect: str) -> None:
    assert dialect_of(db_type) == dialect


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("_parcel_gho", "parcel"),
        ("_parcel_ghc", "parcel"),
        ("_parcel_ghk", "parcel"),
        ("_parcel_del", "parcel"),
        ("_parcel_20240229010203_del", "parcel"),
        ("_parcel_new", "parcel"),
        ("_parcel_old", "parcel"),
        ("__hidden_gho", "_hidden"),
        ("_Parcel_GHO", "Parcel"),
        ("parcel_old", None),
        ("_parcel", None),
        ("__new", None),
        ("", None),
        (None, None),
    ],
)
def test_ghost_tables(name: str | None, base: str | None) -> None:
    assert ghost(name) == base


def test_a_table_beside_another_ones_shadow_is_none() -> None:
    found = parse("ALTER TABLE _parcel_gho ADD a INT; ALTER TABLE crate DROP b")
    parts = [found.of(table) for table in found.tables]
    assert [(part.table.name, part.ghost) for part in parts] == [
        ("parcel", "_parcel_gho"),
        ("crate", None),
    ]


def test_statement_of_one_of_its_tables() -> None:
    found = parse("ALTER TABLE a DROP x; ALTER TABLE b ADD y INT", db="d")
    first, second = TableName("d", None, "a"), TableName("d", None, "b")
    assert found.tables == (first, second)
    assert found.of(second) == Statement(
        text=found.text,
        table=second,
        clauses=(
            Clause(
                kind="add_column",
                table=second,
                column=Column(name="y", source_type="INT", type="int"),
            ),
        ),
    )


def test_created_columns_and_key() -> None:
    found = parse("CREATE TABLE t (a INT NOT NULL, b CHAR(3), PRIMARY KEY (a, b))")
    assert found.clauses[0].keys == ("a", "b")
    assert found.columns == (
        Column(name="a", source_type="INT", type="int", nullable=False),
        Column(name="b", source_type="CHAR(3)", type="string"),
    )


TABLE = TableName("Depot", None, "parcel")


def test_broadcast_copies_are_one() -> None:
    first = identity("ALTER TABLE t ADD a INT;", source="s", table=TABLE, order=(0, 17, 3))
    copy = identity(
        " ALTER  TABLE t\nADD a INT ", source="s", table=TableName("depot", "", "PARCEL"),
        order=[0, 17, 3],
    )  # fmt: skip
    assert first == copy == "6519106df0f3"


@pytest.mark.parametrize(
    "other",
    [
        {"source": "s2"},
        {"table": TableName("depot", None, "crate")},
        {"order": (0, 18, 3)},
        {"order": None, "event_time": 17},
        {"order": None, "event_time": 18},
        {"statement": "ALTER TABLE t ADD b INT"},
    ],
    ids=str,
)
def test_different_statements_are_told_apart(other: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "statement": "ALTER TABLE t ADD a INT",
        "source": "s",
        "table": TABLE,
        "order": (0, 17, 3),
        "event_time": 17,
    }
    assert identity(**given) != identity(**{**given, **other})


def test_only_parsing_imports_sqlglot() -> None:
    code = (
        "import sys; from ingest.ddl.parse import identity, is_truncate, parse;"
        "is_truncate('truncate t'); assert 'sqlglot' not in sys.modules;"
        "parse('truncate t'); assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=HERE.parent.parent)


DIALECTS = st.sampled_from(["mysql", "oracle", "postgres", "tsql"])
WORDS = st.sampled_from(
    """ALTER TABLE t ADD COLUMN ( ) , ; . = `a` "b" [c] 'd' a b INT VARCHAR(9) DECIMAL(3,1) NOT NULL
    DEFAULT 0 -1 x'4' b'1' AS USING :: SET DROP MODIFY CHANGE RENAME TO TYPE DATA COMMENT FIRST
    AFTER PRIMARY KEY INDEX ON CONSTRAINT UNIQUE CHECK PARTITION TRUNCATE EXCHANGE CREATE IF EXISTS
    LIKE SELECT WITH VALUES TIME ZONE INTERVAL EXEC sp_rename @x COLUMN GENERATED IDENTITY _t_gho
    _t_del /*! */ /* -- # $$ BEGIN END DATABASE SCHEMA FOR CASCADE UNUSED ENGINE""".split()
)
KNOWN = st.sampled_from([case.values[0]["sql"] for case in read_cases("parse")])


def holds(found: Statement) -> None:
    """What is true of any statement read."""
    assert found.clauses
    assert found.kind in KINDS
    assert RISKS.index(found.risk) == max(RISKS.index(clause.risk) for clause in found.clauses)
    assert all(clause.kind in KINDS for clause in found.clauses)
    assert all(found.of(table).clauses for table in found.tables)


@given(st.text(), DIALECTS)
def test_any_text_is_read_without_error(text: str, dialect: str) -> None:
    holds(parse(text, dialect=dialect))
    is_truncate(text)
    identity(text, source="s", table=TABLE)


@given(st.lists(WORDS, max_size=24), DIALECTS)
def test_any_words_are_read_without_error(words: list[str], dialect: str) -> None:
    holds(parse(" ".join(words), dialect=dialect))


@given(KNOWN, st.data(), DIALECTS)
def test_cut_and_spliced_statements_are_read_without_error(
    text: str, data: st.DataObject, dialect: str
) -> None:
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, len(text)))
    holds(parse(text[:at] + data.draw(st.text(max_size=3)) + text[to:], dialect=dialect))


@given(KNOWN, DIALECTS)
def test_spaces_comments_and_case_of_words_do_not_matter(text: str, dialect: str) -> None:
    bare = parse(text, dialect=dialect)
    dressed = parse(f"\n/* by a tool */ {text} ", dialect=dialect)
    assert (dressed.table, dressed.clauses) == (bare.table, bare.clauses)


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("ADD COLUMN x int", ["add_column"]),
        ("ADD x int, ADD y text", ["add_column", "add_column"]),
        ("ADD COLUMN (x int, y text);", ["add_column", "add_column"]),
        ("DROP COLUMN x", ["drop_column"]),
        ("MODIFY COLUMN x bigint", ["modify_column"]),
        ("CHANGE a b int", ["rename_column", "modify_column"]),
        ("RENAME COLUMN a TO b", ["rename_column"]),
        ("RENAME TO u", ["rename_table"]),
        ("ALTER COLUMN x SET DEFAULT 1", ["default"]),
        ("CHANGE MASTER TO SOURCE_HOST = 'h'", ["other"]),
        ("DROP TABLE u", ["drop_table"]),
    ],
)
def test_clauses_alone_are_of_the_message_s_table(sql: str, kinds: list[str]) -> None:
    """DataWorks' pages print `ddl.text` so."""
    found = parse(sql, db="shop", table="t")
    assert [clause.kind for clause in found.clauses] == kinds
    if kinds != ["other"] and kinds != ["drop_table"]:
        assert {clause.table for clause in found.clauses} == {("shop", None, "t")}
        assert parse(sql, db="shop").kind in ("unparsed", "other")


def test_words_that_no_column_has_leave_an_addition_unparsed() -> None:
    found = parse("ALTER TABLE t ADD c INT x x x, ADD d INT UNSIGNED NOT NULL COMMENT 'y' AFTER c")
    assert [clause.kind for clause in found.clauses] == ["unparsed", "add_column"]
    assert found.risk == "unparsed"


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("ALTER TABLE t ADD number INT, ADD rate FLOAT", "mysql"),
        ("CREATE TABLE t (number int, clob text)", "mysql"),
        ("ALTER TABLE t RENAME COLUMN a TO number", "mysql"),
        ("ALTER TABLE t ADD a NUMBER", "oracle"),
        ("CREATE TABLE t (id NUMBER, x DATE)", "oracle"),
    ],
)
def test_a_columns_name_says_nothing_of_the_dialect(text: str, dialect: str) -> None:
    assert guess_dialect(text) == dialect


@pytest.mark.parametrize(
    ("text", "schema", "dialect"),
    [
        ('ALTER TABLE t ADD "a`b" numeric', "public", "postgres"),
        ('ALTER TABLE "a`b" ADD (c TIMESTAMP)', "HR", "oracle"),
        ("ALTER TABLE t ADD a int[3], ADD b int ARRAY[4]", "public", "postgres"),
        ("ALTER TABLE t ADD [a b] int", "sales", "tsql"),
        ("ALTER TABLE t ALTER COLUMN a int", "dbo", "tsql"),
        ('ALTER TABLE t ADD `a"b` int', "shop", "mysql"),
    ],
)
def test_names_and_lengths_say_nothing_of_the_dialect(text: str, schema: str, dialect: str) -> None:
    assert guess_dialect(text, db="shop", schema=schema) == dialect
