"""Schema changes over a table's whole life: in its very first run, and many of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("spark")

T0 = 1_700_000_000_000
SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl', order: path}\n"
TABLES = "source: shop\ndefaults: {ddl: {destructive: apply}}\ntables: [{from: '*'}]\n"


def change(
    at: int,
    type_: str,
    row: dict[str, Any],
    *,
    old: Any = None,
    keys: Any = ("id",),
    x: str = "varchar(9)",
) -> dict[str, Any]:
    types = {name: x if name == "x" else "int" for name in row}
    text = {name: None if value is None else str(value) for name, value in row.items()}
    return canal("t", type_, text, es=T0 + at, id_=at, old=old, types=types, keys=keys)


def altered(at: int, *clauses: str) -> dict[str, Any]:
    return canal_ddl("t", f"ALTER TABLE t {', '.join(clauses)}", es=T0 + at, id_=at)


def rows(project: Project, query: str = "SELECT * EXCEPT (_pos) FROM gold.shop_t") -> list[Any]:
    answer = project.ingest("sql", query, "--json")
    assert answer.code == 0, answer.err
    found = [{n: v for n, v in row.items() if not n.startswith("_")} for row in answer.records]
    return sorted(found, key=lambda row: (row["id"], row["x"]))


def started(folder: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    project = Project(folder, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    return project


@pytest.mark.slow
def test_changes_in_the_first_run_of_a_warehouse(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run that begins a target also carries out what its first messages change."""
    project = started(tmp_path, capsys)
    project.land(
        "1.jsonl",
        [
            change(1, "INSERT", {"id": 1, "x": "a"}),
            altered(2, "ADD COLUMN c int NOT NULL DEFAULT 7"),
            change(3, "INSERT", {"id": 2, "x": "12", "c": 9}),
            change(4, "UPDATE", {"id": 1, "x": "34", "c": 7}, old={"x": "a"}),
            altered(5, "MODIFY COLUMN x int"),
            altered(6, "DROP PRIMARY KEY", "ADD PRIMARY KEY (id, x)"),
        ],
    )
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert {e["status"] for e in project.ingest("ddl", "list", "--json").records} == {"applied"}
    assert rows(project) == [{"id": 1, "x": 34, "c": 7}, {"id": 2, "x": 12, "c": 9}]
    more = change(7, "INSERT", {"id": 1, "x": 5, "c": 1}, keys=("id", "x"), x="int")
    project.land("2.jsonl", [more])
    assert project.ingest("run").code == 0
    assert [(row["id"], row["x"]) for row in rows(project)] == [(1, 5), (1, 34), (2, 12)]
    assert project.ingest("reconcile", "shop_t").code == 0


@pytest.mark.slow
def test_a_long_life_stops_no_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More schema changes than Spark's analyzer takes one inside the other: a change of the key, a
    misfit, a late change, a rebuild and a look back read through all of them."""
    project = started(tmp_path, capsys)
    gone = {f"g{n}": n for n in range(34)}
    called = {f"r{n}": n for n in range(18)}
    first = {"id": 1, "x": "a", **gone, **called}
    renamed = {f"n{n}": n for n in range(18)}
    added = {f"d{n}": n for n in range(26)}
    project.land("1.jsonl", [change(1, "INSERT", first), change(2, "INSERT", {**first, "id": 2})])
    assert project.ingest("run").code == 0
    project.land(
        "2.jsonl",
        [
            altered(10, *(f"ADD COLUMN {n} int NOT NULL DEFAULT {v}" for n, v in added.items())),
            altered(11, *(f"DROP COLUMN {name}" for name in gone)),
            altered(12, *(f"RENAME COLUMN r{n} TO n{n}" for n in range(18))),
        ],
    )
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    now = {"id": 1, "x": "a", **renamed, **added}
    assert rows(project) == [now, {**now, "id": 2}]
    misfit = {**now, "id": 3, "d0": "many"}
    project.land(
        "3.jsonl",
        [
            change(20, "UPDATE", {**now, "id": 9}, old={"id": "1"}),
            change(21, "INSERT", misfit),
            change(3, "UPDATE", {**first, "id": 2, "x": "late"}, old={"x": "a"}),
        ],
    )
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    expected = [{**now, "id": 2, "x": "late"}, {**now, "id": 9}]
    assert rows(project) == expected
    [reject] = project.ingest("rejects", "list", "--json").records
    assert reject["code"] == "type_mismatch"
    assert project.ingest("rebuild", "shop_t").code == 0
    assert rows(project) == expected
    answer = project.ingest("as-of", "shop_t", "--pos", f"[0, 1, {T0 + 2}]", "--json")
    assert answer.code == 0, answer.err
    assert [row["x"] for row in answer.records] == ["a", "a"]
    assert project.ingest("reconcile", "shop_t").code == 0
