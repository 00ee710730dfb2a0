"""Tables that are taken away, by a name that another one gets or with their database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl

SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
T0 = 1_700_000_000_000


def row(table: str, at: int, **values: str) -> dict[str, Any]:
    return canal(table, "INSERT", values, es=T0 + at, id_=at, types={"id": "int", "a": "text"})


def statement(table: str, at: int, text: str) -> dict[str, Any]:
    return canal_ddl(table, text, es=T0 + at, id_=at)


@pytest.mark.slow
def test_their_rows_never_meet_unless_somebody_says_so(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", [row("tags", 1, id="1", a="old"), row("tags", 2, id="2", a="old")])
    assert project.ingest("run").code == 0
    swap = "RENAME TABLE tags TO tags_2024, tags_new TO tags"
    project.land(
        "2.jsonl",
        [
            statement("tags_new", 4, "CREATE TABLE tags_new LIKE tags"),
            statement("tags", 5, swap),
            row("tags", 6, id="1", a="new"),
        ],
    )
    project.land("3.jsonl", [row("tags", 7, id="7", a="new")])

    def gold() -> list[tuple[int, str]]:
        query = "SELECT id, a FROM gold.shop_tags ORDER BY id"
        return [(r["id"], r["a"]) for r in project.ingest("sql", query, "--json").records]

    # Parked by the run that meets it, and by every run behind.
    for _ in range(2):
        answer = project.ingest("run")
        assert (answer.code, "shop_tags would mix the rows of both" in answer.err) == (1, True)
        assert gold() == [(1, "old"), (2, "old")]
    listed = project.ingest("ddl", "list", "--status", "pending", "--json").records
    assert [(entry["kind"], entry["statement"]) for entry in listed] == [("rename_table", swap)] * 2
    assert project.ingest("ddl", "reject", *(entry["id"] for entry in listed)).code == 0
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert gold() == [(1, "new"), (2, "old"), (7, "new")]


@pytest.mark.slow
def test_what_came_before_a_drop_is_there_although_others_were_brought_forward_first(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run that was asked for another target alone meets the DROP, too."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    applied = "{from: '*', ddl: {destructive: apply}}"
    project.write("conf/tables/shop.yml", f"source: shop\ntables: [{applied}]\n")
    project.land("1.jsonl", [row("tags", 1, id="1", a="old"), row("near", 2, id="1", a="old")])
    assert project.ingest("run").code == 0
    dropped = statement("tags", 5, "DROP TABLE tags")
    later = [row("tags", 4, id="2", a="last"), dropped, row("near", 6, id="2", a="new")]
    project.land("2.jsonl", later)

    def told() -> list[Any]:
        query = "SELECT count(*) AS n FROM gold.shop_tags"
        listed = project.ingest("ddl", "list", "--json").records
        statuses = [e["status"] for e in listed if e["kind"] == "drop_table"]
        return [project.ingest("sql", query, "--json").records[0]["n"], *statuses]

    assert project.ingest("run", "--table", "shop_near").code == 0
    assert told() == [1, "approved"]
    assert project.ingest("run", "--table", "shop_near").code == 0
    assert told() == [1, "approved"]
    assert project.ingest("run").code == 0
    assert told() == [2, "applied"]
    # From now on the target stays as it is.
    project.land("3.jsonl", [row("tags", 3, id="3", a="late")])
    assert project.ingest("run").code == 0
    assert told() == [2, "applied"]


@pytest.mark.slow
def test_a_log_that_comes_again_in_a_new_epoch_has_its_drop_again(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    source = SOURCE.replace("order: source", "order: arrival")
    project.write("conf/sources/shop.yml", source)
    applied = "{from: '*', ddl: {destructive: apply}}"
    project.write("conf/tables/shop.yml", f"source: shop\ntables: [{applied}]\n")
    log = [
        row("tags", 1, id="1", a="old"),
        statement("tags", 4, "DROP TABLE tags"),
        statement("tags", 5, "CREATE TABLE tags (id int primary key, a text)"),
        row("tags", 6, id="2", a="new"),
    ]
    for epoch in (0, 1):
        project.write("conf/sources/shop.yml", f"{source}epoch: {epoch}\n")
        project.land(f"{epoch}.jsonl", log)
        assert project.ingest("run").code == 0
        found = project.ingest("sql", "SELECT id, a FROM gold.shop_tags", "--json").records
        assert found == [{"id": 2, "a": "new"}]
    assert project.ingest("reconcile", "shop_tags").code == 0


@pytest.mark.slow
def test_a_table_goes_with_its_database(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """MySQL logs the one statement. What is created behind it is a new generation."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", [row("tags", 1, id="1", a="old")])
    assert project.ingest("run").code == 0
    gone = {**statement("", 4, "DROP DATABASE `shop`"), "type": "QUERY"}
    project.land(
        "2.jsonl",
        [
            gone,
            {**statement("", 5, "CREATE DATABASE `shop`"), "type": "QUERY"},
            statement("tags", 6, "CREATE TABLE tags (id int primary key, a text)"),
            row("tags", 7, id="2", a="new"),
        ],
    )

    def gold() -> list[tuple[int, str]]:
        query = "SELECT id, a FROM gold.shop_tags ORDER BY id"
        return [(r["id"], r["a"]) for r in project.ingest("sql", query, "--json").records]

    answer = project.ingest("run")
    assert (answer.code, gold()) == (0, [(1, "old")]), answer.err
    listed = project.ingest("ddl", "list", "--status", "pending", "--json").records
    assert [(entry["kind"], entry["table"]) for entry in listed] == [("create_table", "tags")]
    assert project.ingest("ddl", "approve", listed[0]["id"]).code == 0
    assert project.ingest("run").code == 0
    assert gold() == [(2, "new")]
    assert project.ingest("reconcile", "shop_tags").code == 0


@pytest.mark.slow
def test_a_target_stands_still_once_its_drop_is_approved_and_status_says_so(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The statement was too large at first, and is in its place once it is replayed."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", f"{SOURCE}limits: {{ddl_bytes: 20}}\n")
    drop = statement("tags", 4, "DROP TABLE tags /* moved elsewhere */")
    project.land("1.jsonl", [row("tags", 1, id="1", a="old"), drop])
    assert project.ingest("run").code == 0
    [reject] = project.ingest("rejects", "list", "--json").records
    assert (reject["code"], reject["stage"]) == ("too_large", "decode")
    assert project.ingest("ddl", "list", "--json").records == []

    project.write("conf/sources/shop.yml", SOURCE)
    assert project.ingest("rejects", "replay").code == 0
    assert project.ingest("run").code == 0
    [entry] = project.ingest("ddl", "list", "--json").records
    assert (entry["kind"], entry["status"]) == ("drop_table", "pending")
    told = "table shop_tags: shop.tags was dropped at its source, and that is approved: what comes "
    told += "for it stays in silver until its CREATE is approved\n"
    assert told not in project.ingest("status").err
    assert project.ingest("ddl", "approve", entry["id"]).code == 0
    project.land("2.jsonl", [row("tags", 5, id="2", a="new")])
    assert project.ingest("run").code == 0
    status = project.ingest("status", "--json")
    assert status.err == told
    [table] = [record for record in status.records if record["kind"] == "table"]
    assert (table["rows"], table["parked"]) == (1, False)
