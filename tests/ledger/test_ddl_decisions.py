"""Decisions on schema changes: who, twice, at once, killed, and of what there is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.sql.tables.alter import statements
from pipelines.gold import approvals
from pipelines.gold import run as gold_run
from pipelines.ledger import alter
from pipelines.ledger.store import Ledger
from pipelines.operations import decisions
from pipelines.platform.warehouse import Warehouse
from tests.support.project import Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = "source: shop\ndefaults: {ddl: {additive: review}}\ntables: [{from: '*'}]\n"
T0 = 1_700_000_000_000
TABLE = ("early", "halfway", "filled", "shared", "soon", "plain", "beside", "left")
ADD = "ALTER TABLE {} ADD COLUMN c int DEFAULT 7"
SWAPPED = {"aside": 1, "through": 3}
SWAP = "ALTER TABLE {} RENAME COLUMN a TO b, RENAME COLUMN b TO a"
ROWS = [{"id": 1, "a": "x", "c": 7}, {"id": 2, "a": "y", "c": 8}]


class Killed(BaseException):
    """Ends the command as a kill would: nobody handles it."""


def die(*_: Any, **__: Any) -> Any:
    raise Killed


def put(table: str, id_: int, es: int) -> dict[str, Any]:
    """A row that Canal sends `es` milliseconds after the beginning."""
    row, types = {"id": str(id_), "a": "x"}, {"id": "int", "a": "varchar(9)"}
    return canal(table, "INSERT", row, es=T0 + es, id_=1, types=types)


def read(op: str, pos: int, table: str, **after: Any) -> dict[str, Any]:
    """A row that Debezium reads: `c` from the log, `r` in an incremental snapshot."""
    snapshot = "incremental" if op == "r" else "false"
    return {**placed(pos, table, snapshot), "op": op, "before": None, "after": after}


def stated(pos: int, table: str, statement: str) -> dict[str, Any]:
    """A schema change as Debezium sends it."""
    return {**placed(pos, table), "databaseName": "shop", "ddl": statement, "tableChanges": []}


def placed(pos: int, table: str, snapshot: str = "false") -> dict[str, Any]:
    place = {"file": "binlog.000007", "pos": pos, "row": 0, "ts_ms": T0 + pos}
    of = {"connector": "mysql", "db": "shop", "table": table, "snapshot": snapshot}
    return {"source": {**of, **place}, "ts_ms": T0 + pos}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A project whose tables all wait for the same change."""
    import contextlib
    import io

    project = Project(tmp_path_factory.mktemp("decisions"), lambda: ("", ""))
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    types = {"id": "int", "a": "varchar(9)"}
    later = {**types, "c": "int"}
    sent = []
    types_too = {"id": "int", "a": "varchar(9)", "b": "int"}
    for table in SWAPPED:
        row = {"id": "1", "a": "x", "b": "7"}
        sent += [
            canal(table, "INSERT", row, es=T0, id_=1, types=types_too),
            canal_ddl(table, SWAP.format(table), es=T0 + 1000, id_=2),
        ]
    sent += [
        canal("freed", "INSERT", {"id": "1", "a": "x", "b": "7"}, es=T0, id_=1, types=types_too),
        canal_ddl("freed", "ALTER TABLE freed DROP COLUMN b", es=T0 + 1000, id_=2),
        canal_ddl("freed", "ALTER TABLE freed RENAME COLUMN a TO b", es=T0 + 2000, id_=3),
    ]
    sent += [
        canal("half", "INSERT", {"id": "1", "a": "x", "b": "7"}, es=T0, id_=1, types=types_too),
        canal_ddl("half", "ALTER TABLE half MODIFY b varchar(9)", es=T0 + 1000, id_=2),
    ]
    sent += [
        canal("behind", "INSERT", {"id": "1", "a": "x", "b": "7"}, es=T0, id_=1, types=types_too),
        canal_ddl("behind", "ALTER TABLE behind MODIFY b varchar(9)", es=T0 + 1000, id_=2),
        canal_ddl("behind", "ALTER TABLE behind DROP COLUMN b", es=T0 + 2000, id_=3),
    ]
    for table in TABLE:
        sent += [
            canal(table, "INSERT", {"id": "1", "a": "x"}, es=T0, id_=1, types=types),
            canal_ddl(table, ADD.format(table), es=T0 + 1000, id_=2),
            canal(
                table, "INSERT", {"id": "2", "a": "y", "c": "8"}, es=T0 + 2000, id_=3, types=later
            ),
        ]
    project.land("1.jsonl", sent)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert project.ingest("run").code == 0
    return project.folder


@pytest.fixture
def project(folder: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(folder, capsys.readouterr)


def entry(project: Project, table: str) -> dict[str, Any]:
    (found,) = [e for e in project.ingest("ddl", "list", "--json").records if e["table"] == table]
    return found


def rows(project: Project, table: str) -> list[dict[str, Any]]:
    query = f"SELECT id, a, c FROM gold.shop_{table} ORDER BY id"
    return project.ingest("sql", query, "--json").records


@pytest.mark.slow
def test_an_approval_that_is_killed_is_finished(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the statement, after it, after the rows; a run or the same decision goes on."""
    points = {
        "early": (alter, "due"),
        "halfway": (alter, "_restore"),
        "filled": (approvals, "replay_misfits"),
    }
    for table, (module, point) in points.items():
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(module, point, die)
            project.ingest("ddl", "approve", entry(project, table)["id"], "--by", "ada")
        assert entry(project, table)["status"] == "approved"
    again = project.ingest("ddl", "approve", entry(project, "halfway")["id"])
    assert again.code == 0, again.err
    assert project.ingest("run").code == 0
    for table in points:
        assert rows(project, table) == ROWS
        decided = entry(project, table)
        assert (decided["status"], decided["decided_by"]) == ("applied", "ada")
    assert project.ingest("ddl", "list", "--status", "approved", "--json").records == []


@pytest.mark.slow
def test_what_is_approved_too_early_says_who_carries_it_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = entry(project, "soon")["id"]
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "too_early", lambda *_: True)
        answer = project.ingest("ddl", "approve", id_)
    said = f"{id_} is approved, and the next `ingest run` carries it out: a run was killed while"
    assert answer.code == 0 and said in " ".join(answer.err.split()), answer.err
    assert entry(project, "soon")["status"] == "approved"
    assert project.ingest("run").code == 0
    assert (entry(project, "soon")["status"], rows(project, "soon")) == ("applied", ROWS)


@pytest.mark.slow
def test_what_failed_halfway_waits_to_be_approved_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column has its new type, and none of its values yet: no run takes it for done."""
    id_ = entry(project, "half")["id"]
    with monkeypatch.context() as patch:
        patch.setattr(approvals, "backfill", no_space)
        assert project.ingest("ddl", "approve", id_).code == 1
    failed = entry(project, "half")
    why = "unexpected OSError: no space left; INGEST_DEBUG=1 shows where"
    assert (failed["status"], failed["why"]) == ("failed", why)
    assert project.ingest("run").code == 0
    assert entry(project, "half") == failed
    assert project.ingest("ddl", "approve", id_).code == 0
    found = project.ingest("sql", "SELECT id, b FROM gold.shop_half", "--json").records
    assert found == [{"id": 1, "b": "7"}]


@pytest.mark.slow
def test_what_a_failed_change_has_overtaken_waits_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> dict[str, dict[str, Any]]:
        found = project.ingest("ddl", "list", "--json").records
        return {e["statement"].split()[3]: e for e in found if e["table"] == "behind"}

    def statuses() -> dict[str, str]:
        return {word: e["status"] for word, e in listed().items()}

    assert statuses() == {"MODIFY": "pending", "DROP": "pending"}
    id_ = listed()["DROP"]["id"]
    with monkeypatch.context() as patch:
        patch.setattr(approvals, "carry_out", no_space)
        assert project.ingest("ddl", "approve", id_).code == 1
    assert statuses() == {"MODIFY": "pending", "DROP": "failed"}
    # The same where the run that finishes it is not the one that began it.
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(approvals, "carry_out", die)
        project.ingest("ddl", "approve", id_)
    assert statuses() == {"MODIFY": "superseded", "DROP": "approved"}
    with monkeypatch.context() as patch:
        patch.setattr(approvals, "carry_out", no_space)
        project.ingest("run")
    assert statuses() == {"MODIFY": "pending", "DROP": "failed"}
    assert project.ingest("ddl", "approve", id_).code == 0
    assert statuses() == {"MODIFY": "superseded", "DROP": "applied"}


def no_space(*_: Any) -> None:
    raise OSError("no space left")


@pytest.mark.slow
def test_columns_that_are_swapped_are_swapped_once(
    project: Project, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Killed between and after the three statements; the next decision does the rest."""
    for table, done in SWAPPED.items():
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(alter, "statements", dying(statements, done))
            project.ingest("ddl", "approve", entry(project, table)["id"])
        again = project.ingest("ddl", "approve", entry(project, table)["id"])
        assert again.code == 0, again.err
        assert entry(project, table)["status"] == "applied"
        query = f"SELECT id, a, b FROM gold.shop_{table}"
        assert project.ingest("sql", query, "--json").records == [{"id": 1, "a": 7, "b": "x"}]
        config = load(project.folder / "conf", environ={})
        target = Warehouse(config, spark).name("gold", f"shop_{table}")
        made = spark.sql(f"DESCRIBE HISTORY {target}").where("operation = 'RENAME COLUMN'")
        assert made.count() == 3


def dying(statements: Callable[..., list[str]], done: int) -> Callable[..., Iterator[str]]:
    """`statements`, the first `done` of which are carried out before the kill."""

    def some(*arguments: Any, **named: Any) -> Iterator[str]:
        yield from statements(*arguments, **named)[:done]
        raise Killed

    return some


@pytest.mark.slow
def test_two_approvals_at_once(project: Project, spark: SparkSession) -> None:
    """The second waits, finds the change made and does nothing."""
    config = load(project.folder / "conf", environ={})
    warehouse = Warehouse(config, spark)
    id_ = entry(project, "shared")["id"]
    done: list[tuple[str, str | None]] = []

    def approve(name: str) -> None:
        (found,) = decisions.decide(warehouse, "approve", ids=[id_], by=name, why=None).entries
        done.append((found.status, found.decided_by))

    both = [threading.Thread(target=approve, args=(name,)) for name in ("ada", "bob")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert done[0] == done[1] and done[0][0] == "applied"
    assert rows(project, "shared") == ROWS
    made = spark.sql(f"DESCRIBE HISTORY {warehouse.name('gold', 'shop_shared')}")
    assert made.where("operation = 'ADD COLUMNS'").count() == 1


def test_what_is_decided_is_told(project: Project) -> None:
    waiting = entry(project, "plain")
    assert waiting == {
        **waiting,
        "source": "shop",
        "target": "shop_plain",
        "status": "pending",
        "class": "additive",
        "kind": "add_column",
        "statement": "ALTER TABLE plain ADD COLUMN c int DEFAULT 7",
        "waiting_rows": 1,
        "decided_by": None,
        "decided_at": None,
        "why": "the column is added, and filled with what silver has for it",
    }
    assert waiting["proposed"] == "ALTER TABLE gold.shop_plain ADD COLUMNS (`c` int)"
    shown = project.ingest("ddl", "show", waiting["id"]).out
    for text in ("ADD COLUMN c int DEFAULT 7", "additive", "ADD COLUMNS (`c` int)"):
        assert text in shown
    refused = project.ingest("ddl", "reject", waiting["id"], "--by", "bob", "--why", "not ours")
    assert refused.code == 0
    rejected = entry(project, "plain")
    assert rejected["decided_at"] is not None
    assert rejected == {
        **waiting,
        "status": "rejected",
        "decided_by": "bob",
        "decided_at": rejected["decided_at"],
        "why": "not ours",
    }
    # Said twice it is the same; and one may change one's mind.
    assert project.ingest("ddl", "reject", waiting["id"]).code == 0
    assert entry(project, "plain") == rejected
    assert project.ingest("ddl", "approve", waiting["id"][:8], "--why", "ours after all").code == 0
    approved = entry(project, "plain")
    assert (approved["status"], approved["why"]) == ("applied", "ours after all")
    assert rows(project, "plain") == ROWS
    assert project.ingest("ddl", "approve", waiting["id"], "--by", "eve").code == 0
    assert entry(project, "plain") == approved


def test_mistakes_touch_nothing(project: Project) -> None:
    known = entry(project, "early")["id"]
    assert project.ingest("ddl", "approve", known).code == 0
    before = project.ingest("ddl", "list", "--json").records
    drop, rename = (e["id"] for e in before if e["table"] == "freed")
    wrong = known[:-1] + ("0" if known[-1] != "0" else "1")
    for arguments, said in (
        (
            ["ddl", "approve", known, wrong],
            f"`{wrong}`, with which no id begins; nearest: {known}",
        ),
        (["ddl", "reject", "nothing"], "got `nothing`, with which no id begins"),
        (["ddl", "approve"], "Missing argument"),
        (["ddl", "reject", known], f"got {known}, which is applied"),
        (["ddl", "approve", rename], f"a column's name that {drop} frees: approve that one first"),
    ):
        answer = project.ingest(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
    assert project.ingest("ddl", "list", "--json").records == before


@pytest.mark.slow
def test_a_table_that_is_declared_no_more_is_not_changed(project: Project) -> None:
    """Nothing would be done, and the change would pass for applied."""
    id_ = entry(project, "left")["id"]
    project.write("conf/tables/shop.yml", TABLES.replace("'*'", "shop.plain"))
    answer = project.ingest("ddl", "approve", id_)
    said = f"{id_} changes shop_left, which shop.left does not feed any more: declare its source"
    assert (answer.code, said in " ".join(answer.err.split())) == (2, True), answer.err
    assert project.ingest("run").code == 0
    assert entry(project, "left")["status"] == "pending"
    project.write("conf/tables/shop.yml", TABLES)
    assert project.ingest("ddl", "approve", id_).code == 0
    assert rows(project, "left") == ROWS


def test_what_must_wait_keeps_nothing_beside_it(project: Project) -> None:
    """Both of them are named: what was done, and what was not."""
    before = project.ingest("ddl", "list", "--json").records
    drop, rename = (e["id"] for e in before if e["table"] == "freed")
    known = entry(project, "beside")["id"]
    answer = project.ingest("ddl", "approve", known, rename, "--json")
    said = f"{rename} takes a column's name that {drop} frees: approve that one first"
    assert (answer.code, answer.err.strip()) == (1, said)
    assert [(record["id"], record["status"]) for record in answer.records] == [(known, "applied")]
    waiting = project.ingest("ddl", "list", "--json").records
    assert [e["status"] for e in waiting if e["table"] == "freed"] == ["pending", "pending"]
    assert project.ingest("ddl", "approve", rename, drop).code == 0


@pytest.mark.slow
def test_a_column_is_filled_from_a_snapshot_that_was_read_since(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows stand below the statement, and nothing that was streamed stands above it."""
    project = Project(tmp_path, capsys.readouterr)
    declared = "keys: {shop.t: [id]}\ncolumns: {shop.t: {id: int}}\n"
    project.write("conf/sources/shop.yml", f"{SOURCE.replace('canal', 'debezium')}{declared}")
    project.write("conf/tables/shop.yml", TABLES)

    statement = stated(20, "t", ADD.format("t"))
    project.land("1.jsonl", [read("c", 10, "t", id=1), statement])
    assert project.ingest("run").code == 0
    project.land("2.jsonl", [read("r", 30, "t", id=2, c=5)])
    assert project.ingest("run").code == 0
    waits = entry(project, "t")
    assert (waits["status"], waits["waiting_rows"]) == ("pending", 1)
    assert project.ingest("ddl", "approve", waits["id"]).code == 0
    found = project.ingest("sql", "SELECT id, c FROM gold.shop_t ORDER BY id", "--json").records
    assert found == [{"id": 1, "c": 7}, {"id": 2, "c": 5}]


@pytest.mark.slow
def test_what_waits_under_a_new_name_of_the_table_is_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of a snapshot that show that there is something to fill have the new name."""
    project = Project(tmp_path, capsys.readouterr)
    declared = "keys: {shop.t: [id], shop.u: [id]}\n"
    declared += "columns: {shop.t: {id: int}, shop.u: {id: int}}\n"
    project.write("conf/sources/shop.yml", f"{SOURCE.replace('canal', 'debezium')}{declared}")
    project.write("conf/tables/shop.yml", TABLES)

    def approve() -> dict[str, Any]:
        [waits] = project.ingest("ddl", "list", "--status", "pending", "--json").records
        assert project.ingest("ddl", "approve", waits["id"]).code == 0
        return waits

    project.land("1.jsonl", [read("c", 10, "t", id=1), stated(15, "t", "RENAME TABLE t TO u")])
    assert project.ingest("run").code == 0
    approve()
    project.land("2.jsonl", [stated(20, "u", ADD.format("u"))])
    assert project.ingest("run").code == 0
    project.land("3.jsonl", [read("r", 30, "u", id=2, c=5)])
    assert project.ingest("run").code == 0
    assert approve()["waiting_rows"] == 1
    found = project.ingest("sql", "SELECT id, c FROM gold.shop_t ORDER BY id", "--json").records
    assert found == [{"id": 1, "c": 7}, {"id": 2, "c": 5}]
    assert project.ingest("reconcile", "shop_t").code == 0


@pytest.mark.slow
def test_a_null_that_a_snapshot_sent_since_is_not_filled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not done before the rows of a batch is seen through after them, with the same
    statement."""
    project = Project(tmp_path, capsys.readouterr)
    declared = "keys: {shop.t: [id]}\ncolumns: {shop.t: {id: int, a: int}}\n"
    project.write("conf/sources/shop.yml", f"{SOURCE.replace('canal', 'debezium')}{declared}")
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: '*'}]\n")

    project.land("1.jsonl", [read("c", 10, "t", id=1, a=1)])
    assert project.ingest("run").code == 0
    text = f"{ADD.format('t')}, MODIFY COLUMN a bigint"
    statement = stated(20, "t", text)
    project.land("2.jsonl", [statement, read("r", 30, "t", id=2, a=2, c=None)])
    assert project.ingest("run").code == 0
    found = project.ingest("sql", "SELECT id, c FROM gold.shop_t ORDER BY id", "--json").records
    assert found == [{"id": 1, "c": 7}, {"id": 2, "c": None}]
    assert project.ingest("reconcile", "shop_t").code == 0


@pytest.mark.slow
def test_rows_that_are_to_be_folded_again_wait_for_what_the_tables_file_wants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A DROP that waits comes late while the target is wanted otherwise, which is taken back."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    plain = "source: shop\ntables: [{from: '*'}]\n"
    project.write("conf/tables/shop.yml", plain)

    added = canal_ddl("late", ADD.format("late"), es=T0 + 2000, id_=1)
    project.land("1.jsonl", [put("late", 1, 1000), added])
    project.land("2.jsonl", [put("late", 2, 5000)])
    assert project.ingest("run").code == 0
    project.write("conf/tables/shop.yml", plain.replace("'*'", "'*', deletes: soft"))
    dropped = canal_ddl("late", "ALTER TABLE late DROP COLUMN c", es=T0 + 4000, id_=1)
    project.land("3.jsonl", [dropped, put("late", 3, 6000)])
    assert project.ingest("run").code == 1
    project.write("conf/tables/shop.yml", plain)
    assert project.ingest("run").code == 0
    query = "SELECT id, c FROM gold.shop_late ORDER BY id"
    found = project.ingest("sql", query, "--json").records
    assert [(row["id"], row["c"]) for row in found] == [(1, 7), (2, None), (3, None)]
    assert project.ingest("reconcile", "shop_late").code == 0


@pytest.mark.slow
def test_a_target_that_cannot_be_folded_again_waits_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DROP that waits comes late, and the row above it has no DEFAULT any more. While its rows
    cannot be folded again the target is parked, and its neighbour is brought forward."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: '*'}]\n")

    def told() -> list[Any]:
        query = "SELECT id, c FROM gold.shop_late ORDER BY id"
        late = [(row["id"], row["c"]) for row in project.ingest("sql", query, "--json").records]
        count = project.ingest("sql", "SELECT count(*) AS n FROM gold.shop_near", "--json")
        return [late, count.records[0]["n"]]

    added = canal_ddl("late", ADD.format("late"), es=T0 + 2000, id_=1)
    project.land("1.jsonl", [put("late", 1, 1000), added, put("near", 1, 1000)])
    project.land("2.jsonl", [put("late", 2, 5000)])
    assert project.ingest("run").code == 0
    dropped = canal_ddl("late", "ALTER TABLE late DROP COLUMN c", es=T0 + 4000, id_=1)
    project.land("3.jsonl", [dropped, put("late", 3, 6000), put("near", 2, 6000)])
    with monkeypatch.context() as patch:
        patch.setattr(gold_run, "backfill", no_space)
        for number in (3, 4):
            answer = project.ingest("run")
            assert (answer.code, "shop_late" in answer.err) == (1, True), answer.err
            assert "no space left" in answer.err
            assert told() == [[(1, 7), (2, 7), (3, None)], number - 1]
            more = [put("late", number + 1, 7000), put("near", number, 7000)]
            project.land(f"{number + 1}.jsonl", more)
    assert project.ingest("run").code == 0
    assert told() == [[(1, 7), (2, None), (3, None), (4, None), (5, None)], 4]
    assert project.ingest("reconcile", "shop_late").code == 0
