"""Maintain: what retention takes away is never missed, and nothing that waits is touched."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.operations import maintain
from tests.support.project import Project, canal

SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
SETTINGS = "retention: {bronze: 30 days, silver: 60 days, runs: 90 days}\n"
T0 = 1_700_000_000_000


def _row(id_: int, price: int) -> dict[str, str | None]:
    return {"id": str(id_), "name": "x", "price": str(price)}


def _insert(id_: int, price: int, number: int) -> dict[str, Any]:
    return canal("items", "INSERT", _row(id_, price), es=T0 + number * 1000, id_=number)


def _update(id_: int, price: int, number: int, **old: str) -> dict[str, Any]:
    row, es = _row(id_, price), T0 + number * 1000
    return canal("items", "UPDATE", row, es=es, id_=number, old=old or {"price": "0"})


OLD = [
    _insert(1, 1, 1),
    _insert(2, 2, 2),
    _update(1, 10, 3),
    canal("items", "DELETE", _row(2, 2), es=T0 + 4000, id_=4),
    # A key that changes, with all that led to it.
    _insert(3, 3, 5),
    _update(3, 30, 6),
    _update(4, 30, 7, id="3"),
    _insert(5, 5, 8),
]
NEW = [_update(1, 11, 20), _update(5, 50, 21)]


def _query(project: Project, query: str) -> list[dict[str, Any]]:
    answer = project.ingest("sql", query, "--json")
    assert answer.code == 0, answer.err
    return answer.records


def _age(project: Project) -> None:
    """All that bronze and silver have came 100 days earlier."""
    for table, column in (("bronze.messages", "ingested_at"), ("silver.cdc", "decoded_at")):
        update = f"UPDATE {table} SET {column} = {column} - INTERVAL 100 DAYS"
        assert project.ingest("sql", "--write", update).code == 0


def _maintained(project: Project) -> dict[str, dict[str, Any]]:
    answer = project.ingest("maintain", "--json")
    assert answer.code == 0, answer.err
    return {record["table"]: record for record in answer.records}


def _numbers(project: Project) -> list[int]:
    """The numbers of the changes that silver has."""
    rows = _query(project, "SELECT DISTINCT id FROM silver.changes ORDER BY CAST(id AS int)")
    return [int(row["id"]) for row in rows]


@pytest.mark.parametrize("behind", [{"shop": 0, "other": 2}, {"shop": 0, "other": 0}])
def test_files_of_bronze_stay_while_any_source_lags(
    monkeypatch: pytest.MonkeyPatch, behind: dict[str, int]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(maintain, "_files", lambda *_: 1)
    monkeypatch.setattr(maintain, "_compact", lambda *_, source: done.append(source))
    monkeypatch.setattr(maintain, "_clean", lambda *_: done.append("cleaned"))
    monkeypatch.setattr(maintain, "undecoded", lambda _: behind)
    monkeypatch.setattr(maintain, "lease", lambda *_: nullcontext())
    monkeypatch.setattr(maintain, "gold_tables", lambda _: ())
    warehouse: Any = SimpleNamespace(
        settings=SimpleNamespace(retention=SimpleNamespace(bronze=None)),
        config=SimpleNamespace(sources={"shop": None}),
        exists=lambda layer, _: layer == "bronze",
    )
    [result] = maintain.maintain(warehouse, advance=lambda *_: None)
    lags = behind["other"] > 0
    assert done == (["shop"] if lags else ["shop", "cleaned"])
    told = ["other: 2 messages wait for silver, left as it is"] if lags else []
    assert (result.notes, result.failed) == (told, [])


def test_old_files_go_where_there_is_no_room_to_compact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is when they are wanted most."""
    done: list[str] = []

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(maintain, "_files", lambda *_: 1)
    monkeypatch.setattr(maintain, "_compact", full)
    monkeypatch.setattr(maintain, "_clean", lambda _, *table: done.append(".".join(table)))
    monkeypatch.setattr(maintain, "undecoded", lambda _: {"shop": 0})
    monkeypatch.setattr(maintain, "lease", lambda *_: nullcontext())
    monkeypatch.setattr(maintain, "gold_tables", lambda _: ("items",))
    warehouse: Any = SimpleNamespace(
        settings=SimpleNamespace(retention=SimpleNamespace(bronze=None, silver=None, runs=None)),
        config=SimpleNamespace(sources={"shop": None}),
        exists=lambda _, name: name in ("messages", "cdc", "items"),
    )
    results = maintain.maintain(warehouse, advance=lambda *_: None)
    assert done == ["bronze.messages", "silver.cdc", "gold.items"]
    assert all("no space is left" in text for result in results for text in result.failed)
    assert [len(result.failed) for result in results] == [1, 1, 1]


@pytest.mark.slow
def test_retention(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipelines.operations.maintain._MANY", 2)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", SETTINGS)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", OLD)
    assert project.ingest("run").code == 0
    for table, column in (
        *(("bronze.messages", "ingested_at"), ("silver.cdc", "decoded_at")),
        ("gold._runs", "ended"),
    ):
        update = f"UPDATE {table} SET {column} = {column} - INTERVAL 100 DAYS"
        assert project.ingest("sql", "--write", update).code == 0
    project.land("2.jsonl", NEW)
    assert project.ingest("bronze").code == 0
    # Messages of bronze wait for silver: none is taken, however old.
    done = _maintained(project)
    assert done["bronze.messages"]["rows_trimmed"] == 0
    assert done["bronze.messages"]["note"] == ("shop: 2 messages wait for silver, left as it is")
    assert done["gold._runs"]["rows_trimmed"] == 1
    assert _query(project, "SELECT count(*) AS runs FROM gold._runs") == [{"runs": 1}]
    assert project.ingest("silver").code == 0
    # Silver's new changes wait for gold: what they supersede stands only in silver.
    done = _maintained(project)
    assert (done["bronze.messages"]["rows_trimmed"], done["bronze.messages"]["note"]) == (8, None)
    assert (done["silver.cdc"]["rows_trimmed"], _numbers(project)) == (
        2,
        [3, 4, 5, 6, 7, 8, 20, 21],
    )
    assert project.ingest("run", "--json").records[0]["rows"] == 0
    rows = [{"id": 1, "price": "11.00"}, {"id": 4, "price": "30.00"}, {"id": 5, "price": "50.00"}]
    gold = "SELECT id, price FROM gold.shop_items ORDER BY id"
    assert _query(project, gold) == rows
    # Of progress the newest row of each target stays, however old, and says how far it is.
    update = "UPDATE gold._progress SET at = at - INTERVAL 100 DAYS"
    assert project.ingest("sql", "--write", update).code == 0
    newest = (
        "SELECT target, max_by(struct(batch, state), version) AS last FROM gold._progress "
        "GROUP BY target ORDER BY target"
    )
    before = _query(project, newest)
    assert _maintained(project)["gold._progress"]["rows_trimmed"] > 0
    assert _query(project, newest) == before
    assert _query(project, "SELECT count(*) AS n FROM gold._progress") == [{"n": len(before)}]
    assert project.ingest("run", "--json").records[0]["rows"] == 0
    [status, _] = project.ingest("status", "--json").records
    assert (status["messages"], status["lag"]) == (2, 0)
    # Decoded again, what is left of history makes the same rows: one that never changed, too.
    assert project.ingest("redecode", "--source", "shop").code == 0
    assert _query(project, gold) == rows
    for verb in ("reconcile", "rebuild", "reconcile"):
        assert project.ingest(verb, "shop_items").code == 0
    assert _query(project, gold) == rows
    # What is past cannot be told any more; what is not can.
    past = project.ingest("as-of", "shop_items", "--time", "2023-11-14T22:13:23Z")
    assert (past.code, past.out) == (1, "")
    assert "the history of shop.items was trimmed up to position" in past.err
    since = project.ingest("as-of", "shop_items", "--time", "2023-11-14T22:13:28Z", "--json")
    assert [(row["id"], row["price"]) for row in since.records] == [
        *((1, "10.00"), (4, "30.00"), (5, "5.00"))
    ]
    # Late from below: set aside. Late from above: in its place.
    project.land("3.jsonl", [_update(1, 99, 2), _update(2, 99, 2), _update(5, 49, 19)])
    answer = project.ingest("run", "--json")
    assert (answer.code, answer.records[1]["rejected"]) == (0, 2)
    assert _query(project, gold) == rows
    rejects = project.ingest("rejects", "list", "--json").records
    assert [(row["code"], row["offset"], row["status"]) for row in rejects] == [
        ("late_beyond_horizon", 0, "open"),
        ("late_beyond_horizon", 1, "open"),
    ]
    assert project.ingest("reconcile", "shop_items").code == 0
    # Once more: there is nothing more to take, and what was compacted is not sent again.
    done = _maintained(project)
    trimmed = [done[table]["rows_trimmed"] for table in ("bronze.messages", "silver.cdc")]
    assert trimmed == [0, 0]
    again = project.ingest("run", "--json").records
    assert [(row["messages"], row["rows"]) for row in again] == [(0, 0)]


@pytest.mark.slow
def test_messages_of_open_rejects_stay(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", SETTINGS)
    project.write("conf/sources/shop.yml", SOURCE + "limits: {message_bytes: 600}\n")
    large = [_insert(2, 2, 2), _insert(3, 3, 3)]
    for message in large:
        message["data"][0]["name"] = "x" * 600
    project.land("1.jsonl", [_insert(1, 1, 1), *large])
    assert project.ingest("run").code == 0
    update = "UPDATE bronze.messages SET ingested_at = ingested_at - INTERVAL 100 DAYS"
    assert project.ingest("sql", "--write", update).code == 0
    assert _maintained(project)["bronze.messages"]["rows_trimmed"] == 1
    # One that is gone all the same says so.
    gone = "DELETE FROM bronze.messages WHERE offset = 2"
    assert project.ingest("sql", "--write", gone).code == 0
    project.write("conf/sources/shop.yml", SOURCE)
    replayed = project.ingest("rejects", "replay", "--json").records
    counts = [(row["tried"], row["resolved"]) for row in replayed if row.get("stage") == "decode"]
    assert counts == [(2, 1)]
    rejects = project.ingest("rejects", "list", "--status", "open", "--json").records
    assert [row["error"].rpartition("; ")[2] for row in rejects] == [
        "it cannot be decoded again: bronze no longer has its message"
    ]
    assert _query(project, "SELECT id FROM gold.shop_items ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert _maintained(project)["bronze.messages"]["rows_trimmed"] == 1
    # Silver alone has them now: a reset says that it would lose them.
    answer = project.ingest("reset", "--source", "shop", "--json")
    lost = "messages of shop that bronze no longer has, whose rows no run makes again"
    assert answer.code == 2
    assert [row["rows"] for row in answer.records if row["what"] == lost] == [2]


@pytest.mark.slow
def test_nothing_goes_by_itself(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipelines.operations.maintain._MANY", 2)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    for number, messages in enumerate((OLD, NEW)):
        project.land(f"{number}.jsonl", messages)
        assert project.ingest("run").code == 0
    before = _query(project, "SELECT * EXCEPT (batch) FROM silver.cdc ORDER BY offset, topic")
    done = _maintained(project)
    assert {record["rows_trimmed"] for record in done.values()} == {0}
    assert done["silver.cdc"]["files_after"] < done["silver.cdc"]["files_before"]
    assert (
        _query(project, "SELECT * EXCEPT (batch) FROM silver.cdc ORDER BY offset, topic") == before
    )
    assert project.ingest("run", "--json").records[0]["rows"] == 0
    assert project.ingest("reconcile", "shop_items").code == 0


def test_what_gold_may_ask_for_stays(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """An excluded column's last value, and what a change that is not applied yet lies above."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", SETTINGS)
    project.write("conf/sources/shop.yml", SOURCE)
    tables = "source: shop\ntables: [{{from: '*', exclude: [{}]}}]\n"
    project.write("conf/tables/shop.yml", tables.format("note"))

    def change(table: str, kind: str, number: int, **row: str) -> dict[str, Any]:
        old = {"price": "0"} if kind == "UPDATE" else None
        typed = {"id": "int", "price": "decimal(12,2)", "note": "varchar(20)"}
        types = {name: typed[name] for name in row}
        es = T0 + number * 1000
        return canal(table, kind, row, es=es, id_=number, old=old, types=types)

    old = [
        change("items", "INSERT", 1, id="1", price="1", note="kept"),
        change("items", "UPDATE", 2, id="1", price="2"),
        change("boxes", "INSERT", 3, id="1", price="1"),
        change("boxes", "UPDATE", 9, id="1", price="2"),
    ]
    for number, messages in enumerate((old, [change("items", "INSERT", 10, id="2", price="3")])):
        project.land(f"{number}.jsonl", messages)
        assert project.ingest("run").code == 0
    _age(project)
    project.land("9.jsonl", [change("boxes", "INSERT", 5, id="2", price="5")])
    for stage in ("bronze", "silver"):
        assert project.ingest(stage).code == 0
    assert _maintained(project)["silver.cdc"]["rows_trimmed"] == 0
    assert project.ingest("gold").code == 0
    rows = _query(project, "SELECT id, price FROM gold.shop_boxes ORDER BY id")
    assert rows == [{"id": 1, "price": "2.00"}, {"id": 2, "price": "5.00"}]
    # Now that it is applied, what is superseded goes.
    assert _maintained(project)["silver.cdc"]["rows_trimmed"] == 1
    project.write("conf/tables/shop.yml", tables.format(""))
    assert project.ingest("rebuild", "shop_items").code == 0
    assert _query(project, "SELECT note FROM gold.shop_items WHERE id = 1") == [{"note": "kept"}]


@pytest.mark.slow
def test_changes_that_a_column_orders_stay(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", SETTINGS)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write(
        "conf/tables/shop.yml", "source: shop\ntables: [{from: '*', sequence_by: price}]\n"
    )
    for number, messages in enumerate(([_insert(1, 1, 1), _update(1, 10, 3)], [_insert(2, 2, 5)])):
        project.land(f"{number}.jsonl", messages)
        assert project.ingest("run").code == 0
    _age(project)
    assert _maintained(project)["silver.cdc"]["rows_trimmed"] == 0
    project.land("9.jsonl", [_update(1, 11, 20)])
    assert project.ingest("run").code == 0
    rows = _query(project, "SELECT id, price FROM gold.shop_items ORDER BY id")
    assert rows == [{"id": 1, "price": "11.00"}, {"id": 2, "price": "2.00"}]
