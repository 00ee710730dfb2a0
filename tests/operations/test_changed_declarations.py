"""What a source or a target declares otherwise after the first run never goes unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = "name: bills\nformat: debezium\nfiles: {path: 'landing/*.jsonl'}\nkeys: {db.bill: [id]}\n"
TABLES = "source: bills\ntables:\n  - {from: '*', target: '{table}'}\n"


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capsys.readouterr)


def event(pos: int, table: str = "bill", **row: Any) -> str:
    """An insert as Debezium sends it without a schema."""
    source = {"connector": "mysql", "db": "db", "table": table, "file": "bin.1", "pos": pos}
    return json.dumps({"op": "c", "before": None, "after": row, "source": source})


@pytest.mark.slow
def test_types_declared_after_the_first_run(project: Project) -> None:
    project.write("conf/sources/bills.yml", SOURCE)
    project.write("conf/tables/bills.yml", TABLES)
    project.land("1.jsonl", [event(1, id=1, due=19900, paid=True), event(1, "memo", id=1)])
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    said = "table bill: no message of a row says the types of id, due, paid: string"
    assert said in answer.err
    assert said in project.ingest("status").err
    assert project.ingest("--json", "sql", "SELECT due FROM gold.bill").records == [
        {"due": "19900"}
    ]

    # Of tables and columns that have not come anything may be declared.
    harmless = SOURCE + "columns: {db.fee: {due: date}, db.bill: {since: date}}\n"
    project.write("conf/sources/bills.yml", harmless)
    project.land("2.jsonl", [event(2, id=2, due=19901, paid=True, since=19902)])
    assert project.ingest("run").code == 0

    project.write("conf/sources/bills.yml", SOURCE + "columns: {db.bill: {due: date}}\n")
    project.land("3.jsonl", [event(3, id=3, due=19903, paid=True)])
    answer = project.ingest("run")
    assert answer.code == 1
    assert "types of db.bill (due, since)" in answer.err
    assert "`ingest redecode --source bills`" in answer.err
    assert "Traceback" not in answer.err
    replayed = project.ingest("rejects", "replay")
    assert (replayed.code, "ingest redecode" in replayed.err) == (1, True)
    rows = project.ingest("--json", "sql", "SELECT due FROM gold.bill ORDER BY id").records
    assert rows == [{"due": "19900"}, {"due": "19901"}]

    project.write("conf/sources/bills.yml", harmless)
    assert project.ingest("run").code == 0
    rows = project.ingest("--json", "sql", "SELECT due FROM gold.bill ORDER BY id").records
    assert rows == [{"due": "19900"}, {"due": "19901"}, {"due": "19903"}]

    # What a tables file declares later waits in the ledger at once, and a key parks what has none.
    project.write(
        "conf/tables/bills.yml",
        TABLES + "  - {from: db.bill, target: bill, columns: {due: int}}\n",
    )
    assert project.ingest("run").code == 0
    (entry,) = project.ingest("ddl", "list", "--json", "--status", "pending").records
    assert (entry["target"], entry["class"], entry["kind"]) == (
        *("bill", "destructive", "modify_column"),
    )
    project.write("conf/sources/bills.yml", harmless.replace("[id]}", "[id], db.memo: [id]}"))
    project.land("4.jsonl", [event(4, "memo", id=2)])
    answer = project.ingest("run")
    assert answer.code == 1
    assert "got (id); `ingest rebuild memo --yes` makes it with that key" in answer.err


@pytest.mark.slow
def test_rows_that_a_new_epoch_did_not_bring(project: Project) -> None:
    """Nobody can say so of versions, which keep the position of the change that made them."""
    project.write("conf/sources/bills.yml", SOURCE)
    versions = "{from: '*.memo', keys: [id], stored_as_scd_type: 2}"
    project.write("conf/tables/bills.yml", f"{TABLES}  - {versions}\n")
    sent = [(1, "bill"), (2, "bill"), (1, "memo"), (2, "memo")]
    project.land("1.jsonl", [event(10 * id_, table, id=id_, due=1) for id_, table in sent])
    assert project.ingest("run").code == 0
    project.write("conf/sources/bills.yml", f"{SOURCE}epoch: 1\n")
    project.land("2.jsonl", [event(9, table, id=1, due=1) for table in ("bill", "memo")])
    assert project.ingest("run").code == 0
    status = project.ingest("status", "--json").records
    found = {r["table"]: (r["rows"], r["rows_of_old_epochs"]) for r in status[1:]}
    assert found["bill"] == (2, 1) and [old for _, old in found.values()] == [1, None]


@pytest.mark.slow
def test_a_rebuild_killed_before_it_reviewed_what_waits(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("conf/sources/bills.yml", SOURCE)
    project.write("conf/tables/bills.yml", TABLES)
    source = {"connector": "mysql", "db": "db", "table": "bill", "file": "bin.1", "pos": 5}
    wider = {"source": source, "databaseName": "db", "ddl": "ALTER TABLE bill MODIFY due bigint"}
    project.land("1.jsonl", [event(1, id=1, due=7), json.dumps({**wider, "tableChanges": []})])
    assert project.ingest("run").code == 0
    [entry] = project.ingest("--json", "ddl", "list").records
    assert (entry["class"], entry["status"]) == ("destructive", "pending")

    # What had to replace a column of strings widens it now; the rebuild dies before it sees that.
    project.write("conf/sources/bills.yml", SOURCE + "columns: {db.bill: {id: int, due: int}}\n")
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.ledger.decisions.review_again", _die)
        assert project.ingest("redecode", "--source", "bills").code == 1
    [entry] = project.ingest("--json", "ddl", "list").records
    assert (entry["class"], entry["status"]) == ("destructive", "pending")
    project.land("2.jsonl", [event(9, id=2, due=2**40)])
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    [entry] = project.ingest("--json", "ddl", "list").records
    assert (entry["class"], entry["status"]) == ("widening", "applied")
    rows = project.ingest("--json", "sql", "SELECT due FROM gold.bill ORDER BY id").records
    assert [int(row["due"]) for row in rows] == [7, 2**40]


def _die(*_: object) -> None:
    raise RuntimeError("killed")


@pytest.mark.slow
def test_a_shard_column_that_comes_and_goes(project: Project) -> None:
    """The messages name the key; what they are from becomes a part of it when somebody says so."""
    project.write("conf/sources/shop.yml", "name: shop\nfiles: {path: 'landing/*.jsonl'}\n")
    entry = "source: shop\ntables: [{from: shop.a, target: a%s}]\n"
    project.write("conf/tables/shop.yml", entry % "")
    row = {"id": "1", "name": "x", "price": "1.00"}
    project.land("1.jsonl", [canal("a", "INSERT", row, es=1, id_=1)])
    assert project.ingest("run").code == 0
    project.write("conf/tables/shop.yml", entry % ", shard_column: shard")
    project.land("2.jsonl", [canal("a", "INSERT", {**row, "id": "2"}, es=2, id_=2)])
    answer = project.ingest("run")
    assert answer.code == 1
    assert (
        "table a is parked: expected the shard_column shard in a, got a table that was made"
        " without; `ingest rebuild a --yes` makes it with that, or take `shard_column` away"
        in answer.err
    )
    answer = project.ingest("rebuild", "a")
    assert answer.code == 2
    assert "a: key (id) becomes (id, shard)" in answer.err
    answer = project.ingest("rebuild", "a", "--yes")
    assert answer.code == 0, answer.err
    query = "SELECT id, shard FROM gold.a ORDER BY id"
    assert project.ingest("--json", "sql", query).records == [
        {"id": 1, "shard": "shop.a"},
        {"id": 2, "shard": "shop.a"},
    ]
    assert project.ingest("reconcile", "a").code == 0

    project.write("conf/tables/shop.yml", entry % "")
    project.land("3.jsonl", [canal("a", "INSERT", {**row, "id": "3"}, es=3, id_=3)])
    answer = project.ingest("run")
    assert answer.code == 1
    assert (
        "table a is parked: expected the shard_column shard, with which a was made, got none; "
        "`ingest rebuild a --yes` makes it so, or set what it was made with" in answer.err
    )
    answer = project.ingest("rebuild", "a", "--yes")
    assert answer.code == 0, answer.err
    assert project.ingest("--json", "sql", "SELECT id FROM gold.a ORDER BY id").records == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
    ]
    assert project.ingest("reconcile", "a").code == 0


@pytest.mark.slow
def test_a_killed_redecode_is_not_gone_on_from_by_the_declarations_of_before(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put back, as a run proposes, they passed for those that silver was decoded with: a column of
    a table without a target had values of two encodings."""
    project.write("conf/sources/bills.yml", SOURCE)
    project.write("conf/tables/bills.yml", "source: bills\ntables: [{from: db.other}]\n")
    project.land("1.jsonl", [event(1, id=1, due=19900)])
    assert project.ingest("run").code == 0
    project.write("conf/sources/bills.yml", SOURCE + "columns: {db.bill: {due: date}}\n")
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.silver.declarations.remember", _die)
        assert project.ingest("redecode", "--source", "bills").code == 1
    project.write("conf/sources/bills.yml", SOURCE)
    project.land("2.jsonl", [event(2, id=2, due=19901)])
    answer = project.ingest("run")
    assert (answer.code, "`ingest redecode --source bills` once more" in answer.err) == (1, True)
    assert project.ingest("redecode", "--source", "bills").code == 0
    assert project.ingest("run").code == 0
    query = "SELECT after['due'] AS due FROM silver.cdc WHERE kind = 'change' ORDER BY pos"
    rows = project.ingest("--json", "sql", query).records
    assert rows == [{"due": "19900"}, {"due": "19901"}]


@pytest.mark.slow
def test_by_arrival_a_source_does_not_go_from_a_topic_to_files(project: Project) -> None:
    """A file is placed by its number and a record by its time, so that every change from the file
    counted as older than all from the topic, and the target stayed as it was."""
    captured = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', framing: kcat}\n"
    project.write("conf/sources/shop.yml", captured)
    types = {"id": "int", "x": "int"}
    insert = canal("item", "INSERT", {"id": "1", "x": "1"}, es=1, id_=1, types=types)
    record = {"topic": "t", "partition": 0, "offset": 0, "ts": 1_700_000_000_000, "key": None}
    project.land("1.jsonl", [{**record, "payload": json.dumps(insert)}])
    assert project.ingest("run").code == 0
    project.write("conf/sources/shop.yml", captured.replace(", framing: kcat", ""))
    row = {"id": "1", "x": "2"}
    project.land("2.jsonl", [canal("item", "UPDATE", row, es=2, id_=2, types=types)])
    for verb in (["bronze"], ["run"], ["redecode", "--source", "shop"]):
        answer = project.ingest(*verb)
        assert (answer.code, "expected messages of a topic" in answer.err) == (1, True)
    count = "SELECT count(*) AS n FROM bronze.messages"
    assert project.ingest("--json", "sql", count).records == [{"n": 1}]
    (project.folder / "landing/2.jsonl").unlink()
    project.write("conf/sources/shop.yml", captured)
    assert project.ingest("run").code == 0
    assert project.ingest("redecode", "--source", "shop").code == 0
