"""Transactions: when silver has them whole, and gold that publishes whole ones only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.formats import FORMATS
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = """\
name: bank
format: debezium
files: {path: 'landing/*.jsonl', framing: kcat, order: path}
keys: {bank.debit: [id], bank.credit: [id]}
columns: {bank.debit: {id: int, sum: int}, bank.credit: {id: int, sum: int}}
"""
TABLES = "source: bank\npublish: transaction\ntables: [{from: '*'}]\n"
T0 = 1_700_000_000_000


class Log:
    """The messages of a source over two topics: its rows, and the bounds of its transactions."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}

    def row(
        self, table: str, pos: int, id_: int, sum_: int, tx: str | None, *, sent: int = 0
    ) -> dict[str, Any]:
        """An insert, processed `sent` ms after it happened."""
        return self._captured(
            "rows",
            {
                "op": "c",
                "ts_ms": T0 + pos * 1000 + sent,
                "before": None,
                "after": {"id": id_, "sum": sum_},
                "source": {
                    **{"connector": "mysql", "db": "bank", "table": table, "file": "bin.1"},
                    **{"pos": pos, "row": 0, "ts_ms": T0 + pos * 1000, "snapshot": "false"},
                },
                "transaction": None if tx is None else {"id": tx, "total_order": 1},
            },
        )

    def bound(self, status: str, tx: str, pos: int, events: int | None = None) -> dict[str, Any]:
        """A transaction's begin or end."""
        return self._captured(
            "bounds",
            {"status": status, "id": tx, "ts_ms": T0 + pos * 1000, "event_count": events},
        )

    def _captured(self, topic: str, payload: dict[str, Any]) -> dict[str, Any]:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        place = {"topic": topic, "partition": 0, "offset": offset, "ts": T0, "key": None}
        return {**place, "payload": json.dumps(payload)}


def held(project: Project) -> dict[str, list[int]]:
    """The sums in each table that there is, by key."""
    found = {}
    for table in ("debit", "credit"):
        if (project.folder / f"warehouse/gold/bank_{table}").exists():
            query = f"SELECT sum FROM gold.bank_{table} ORDER BY id"
            rows = project.ingest("sql", query, "--json").records
            found[table] = [row["sum"] for row in rows]
    return found


@pytest.fixture
def bank(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> tuple[Project, Log]:
    """A project that publishes whole transactions of two tables, and their log."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/bank.yml", SOURCE)
    project.write("conf/tables/bank.yml", TABLES)
    return project, Log()


@pytest.mark.slow
def test_gold_publishes_whole_transactions(bank: tuple[Project, Log]) -> None:
    project, log = bank

    def run(number: int, *messages: dict[str, Any]) -> str:
        project.land(f"{number}.jsonl", messages)
        answer = project.ingest("run")
        assert answer.code == 0, answer.err
        return answer.err

    # t1 is whole, t2 has one of its two events, and what comes after it waits for it.
    said = run(
        1,
        log.bound("BEGIN", "t1", 1),
        log.row("debit", 1, 1, 10, "t1"),
        log.row("credit", 2, 1, 10, "t1"),
        log.bound("END", "t1", 2, 2),
        log.bound("BEGIN", "t2", 3),
        log.row("debit", 3, 2, 20, "t2"),
        log.row("credit", 5, 9, 90, None),
    )
    waits = "source bank: gold waits for the rest of transaction t2"
    assert f"{waits} (1 event so far)\n" in said
    assert held(project) == {"debit": [10], "credit": [10]}
    reconciled = [project.ingest("reconcile", f"bank_{table}") for table in ("debit", "credit")]
    assert [answer.code for answer in reconciled] == [0, 0]
    # Nothing new: nothing is written.
    before = project.ingest("sql", "SELECT count(*) AS n FROM gold._progress", "--json").records
    assert f"{waits} (1 event so far)\n" in project.ingest("run").err
    assert (
        project.ingest("sql", "SELECT count(*) AS n FROM gold._progress", "--json").records
        == before
    )
    # Its end is here before all of it is; what is sent again, at another time, is no second event.
    said = run(
        2,
        log.bound("END", "t2", 4, 2),
        log.row("debit", 6, 3, 30, None),
        log.row("debit", 3, 2, 20, "t2", sent=60_000),
    )
    assert f"{waits} (1 of 2 events so far)\n" in said
    assert held(project) == {"debit": [10], "credit": [10]}
    query = (
        "SELECT tx_id, complete, events, expected, tables, unix_millis(begin_time) AS began, "
        "unix_millis(end_time) AS ended FROM silver.transactions ORDER BY tx_id"
    )
    both = ["bank.credit", "bank.debit"]
    assert project.ingest("sql", query, "--json").records == [
        {
            **{"tx_id": "t1", "complete": True, "events": 2, "expected": 2, "tables": both},
            **{"began": T0 + 1000, "ended": T0 + 2000},
        },
        {
            **{"tx_id": "t2", "complete": False, "events": 1, "expected": 2},
            **{"tables": ["bank.debit"], "began": T0 + 3000, "ended": T0 + 4000},
        },
    ]
    # A rebuild keeps to what was published.
    assert project.ingest("rebuild", "bank_debit").code == 0
    assert held(project) == {"debit": [10], "credit": [10]}
    # The rest of it, with a delivery of t1 again and the next transaction open.
    said = run(
        3,
        log.row("credit", 4, 2, 20, "t2"),
        log.row("debit", 1, 1, 10, "t1"),
        log.row("debit", 7, 4, 40, "t3"),
    )
    assert "gold waits for the rest of transaction t3 (1 event so far)\n" in said
    assert held(project) == {"debit": [10, 20, 30], "credit": [10, 20, 90]}
    assert "waits" not in run(4, log.bound("END", "t3", 8, 1))
    assert held(project) == {"debit": [10, 20, 30, 40], "credit": [10, 20, 90]}
    reconciled = [project.ingest("reconcile", f"bank_{table}") for table in ("debit", "credit")]
    assert [answer.code for answer in reconciled] == [0, 0]


@pytest.mark.slow
def test_what_retention_took_is_no_open_rest(bank: tuple[Project, Log]) -> None:
    """Of a transaction that was published and trimmed since, one change that is sent again is not
    all of it. Gold waited for the rest, which nobody sends, for ever."""
    project, log = bank
    project.write("conf/ingest.yml", "retention: {bronze: 30 days, silver: 60 days}\n")
    project.land(
        "1.jsonl",
        [
            log.row("debit", 1, 1, 10, "t1"),
            log.row("debit", 2, 2, 10, "t1"),
            log.bound("END", "t1", 2, 2),
            log.row("debit", 3, 3, 10, "t2"),
            log.row("credit", 4, 3, 10, "t2"),
            log.bound("END", "t2", 4, 2),
            *(log.row("debit", 4 + id_, id_, 20, None) for id_ in (1, 2, 3)),
        ],
    )
    assert project.ingest("run").code == 0
    project.land("2.jsonl", [log.row("credit", 8, 4, 20, None)])
    assert project.ingest("run").code == 0
    aged = "UPDATE silver.cdc SET decoded_at = decoded_at - INTERVAL 100 DAYS"
    assert project.ingest("sql", "--write", aged).code == 0
    trimmed = project.ingest("maintain", "--json").records
    assert [each["rows_trimmed"] for each in trimmed if each["table"] == "silver.cdc"] == [3]
    # All of the first one is gone, of the second one a part.
    again = log.row("debit", 1, 1, 10, "t1"), log.row("credit", 4, 3, 10, "t2")
    project.land("3.jsonl", [*again, log.row("debit", 9, 9, 90, None)])
    answer = project.ingest("run")
    assert (answer.code, "waits" in answer.err) == (0, False), answer.err
    assert held(project) == {"debit": [20, 20, 20, 90], "credit": [10, 20]}


@pytest.mark.slow
def test_what_was_erased_is_no_open_rest(bank: tuple[Project, Log]) -> None:
    """A person goes while gold waits for an earlier transaction: the later one has all its events
    but those of the person, which nobody sends again."""
    project, log = bank
    project.land(
        "1.jsonl",
        [
            *(log.row("debit", 1, 1, 10, None), log.row("credit", 2, 1, 10, None)),
            log.row("debit", 3, 2, 20, "t1"),
            *(log.row("debit", 4, 3, 30, "t2"), log.row("credit", 5, 3, 30, "t2")),
            log.bound("END", "t2", 5, 2),
            *(log.row("debit", 6, 4, 40, "t3"), log.row("credit", 7, 3, 40, "t3")),
            log.bound("END", "t3", 7, 3),
        ],
    )
    assert project.ingest("run").code == 0
    assert held(project) == {"debit": [10], "credit": [10]}
    assert project.ingest("erase", "bank_credit", "--key", "id=3", "--yes").code == 0
    # What has not come yet is waited for.
    project.land("2.jsonl", [log.bound("END", "t1", 3, 1)])
    assert "waits for the rest of transaction t3 (1 of 3 events so far)" in (
        project.ingest("run").err
    )
    assert held(project) == {"debit": [10, 20, 30], "credit": [10]}
    project.land("3.jsonl", [log.row("debit", 8, 5, 50, "t3")])
    assert "waits" not in project.ingest("run").err
    assert held(project) == {"debit": [10, 20, 30, 40, 50], "credit": [10]}


@pytest.mark.slow
def test_what_a_new_epoch_cut_short_has_no_rest(bank: tuple[Project, Log]) -> None:
    """What comes from then on is of the new epoch: gold would wait for ever."""
    project, log = bank
    project.land("1.jsonl", [log.row("debit", 8, 1, 10, None), log.row("debit", 9, 2, 20, "t1")])
    assert "waits for the rest of transaction t1" in project.ingest("run").err
    assert held(project) == {"debit": [10]}
    project.write("conf/sources/bank.yml", f"{SOURCE}epoch: 1\n")
    # By then the same name may be another transaction's.
    project.land("2.jsonl", [log.row("debit", 1, 3, 30, None), log.row("debit", 2, 4, 40, "t1")])
    assert "waits for the rest of transaction t1 (1 event so far)" in project.ingest("run").err
    assert held(project) == {"debit": [10, 20, 30]}
    project.land("3.jsonl", [log.bound("END", "t1", 2, 1)])
    assert "waits" not in project.ingest("run").err
    assert held(project) == {"debit": [10, 20, 30, 40]}


@pytest.mark.slow
def test_decoded_again_beside_transactions_that_are_open(bank: tuple[Project, Log]) -> None:
    """What gold has stays, also of a transaction that was passed before whole ones were asked for
    and that nothing will end; what waits for one goes on waiting."""
    project, log = bank
    project.write("conf/tables/bank.yml", TABLES.replace("publish: transaction\n", ""))
    passed = log.row("debit", 1, 1, 10, "t0"), log.row("credit", 2, 1, 10, None)
    project.land("1.jsonl", passed)
    assert project.ingest("run").code == 0
    project.write("conf/tables/bank.yml", TABLES)
    waiting = log.row("debit", 3, 2, 20, "t2"), log.row("credit", 4, 2, 20, None)
    project.land("2.jsonl", waiting)
    assert project.ingest("run").code == 0
    before = {"debit": [10], "credit": [10]}
    assert held(project) == before
    answer = project.ingest("redecode", "--source", "bank")
    assert answer.code == 0, answer.out + answer.err
    assert held(project) == before
    project.land("3.jsonl", [log.bound("END", "t2", 3, 1)])
    assert "waits" not in project.ingest("run").err
    assert held(project) == {"debit": [10, 20], "credit": [10, 20]}


def maxwell(id_: int, xid: int, **more: Any) -> dict[str, Any]:
    """An insert as Maxwell sends it; its last row of a transaction says so."""
    row = {"database": "bank", "table": "debit", "type": "insert", "ts": T0 // 1000, "xid": xid}
    return {**row, "data": {"id": id_, "sum": 10 * id_}, **more}


def test_what_gold_waits_for_is_told_by_format(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that tell the end of their transaction themselves; a format without ends, which is found
    only by its messages; changes that name no transaction. What is not published is in history."""
    project = Project(tmp_path, capsys.readouterr)
    for name, format_ in (("rows", "maxwell"), ("never", "auto"), ("none", "debezium")):
        project.write(
            f"conf/sources/{name}.yml",
            f"name: {name}\nformat: {format_}\nkeys: {{bank.debit: [id]}}\n"
            "columns: {bank.debit: {id: int, sum: int}}\n"
            f"files: {{path: 'landing/{name}-*.jsonl', framing: lines}}\n",
        )
        project.write(
            f"conf/tables/{name}.yml",
            f"source: {name}\npublish: transaction\n"
            f"tables: [{{from: '*', target: '{name}', keys: [id]}}]\n",
        )
    row = canal("debit", "INSERT", {"id": "1"}, es=T0, id_=1, types={"id": "int"})
    project.land("never-1.jsonl", [{**row, "gtid": "3e11:23"}])
    project.land("none-1.jsonl", [Log().row("debit", 1, 1, 10, None)["payload"]])
    project.land("rows-1.jsonl", [maxwell(1, 801, xoffset=0)])
    fresh = project.ingest("status")
    assert (fresh.code, fresh.err) == (0, ""), fresh.err
    said = project.ingest("run").err
    without = "take `publish: transaction` out of its tables file"
    waits = {
        "rows": "gold waits for the rest of transaction 801 (1 event so far); no message has told "
        f"the end of a transaction yet, which {FORMATS['maxwell'].ends} would: if none will, "
        f"{without}",
        "never": "gold waits for the rest of transaction 3e11:23 (1 event so far); messages of "
        f"canal do not tell where a transaction ends: {without}",
        "none": "`publish: transaction` holds nothing back, since no change of debezium names its "
        f"transaction; let the producer send that, or {without}",
    }
    told = {f"source {name}: {text}" for name, text in waits.items()}
    assert told <= set(said.splitlines())
    assert told <= set(project.ingest("status").err.splitlines())
    past = project.ingest("as-of", "rows", "--pos", "[0]", "--json")
    assert past.records[0]["sum"] == 10
    beyond = "source rows: what is shown goes beyond what gold publishes, which waits for the rest"
    assert f"{beyond} of transaction 801 (1 event so far)\n" in past.err
    assert project.ingest("as-of", "rows", "--pos", "[-1]", "--json").err == ""

    project.land("rows-2.jsonl", [maxwell(2, 801, commit=True), maxwell(3, 802, xoffset=0)])
    said = project.ingest("run", "--source", "rows").err
    assert "gold waits for the rest of transaction 802 (1 event so far)\n" in said
    query = "SELECT id, sum FROM gold.rows ORDER BY id"
    published = [{"id": 1, "sum": 10}, {"id": 2, "sum": 20}]
    assert project.ingest("sql", query, "--json").records == published
    query = (
        "SELECT tx_id, complete, events, unix_millis(end_time) AS ended FROM silver.transactions"
    )
    ended = project.ingest("sql", f"{query} WHERE source = 'rows' ORDER BY tx_id", "--json").records
    assert ended == [
        {"tx_id": "801", "complete": True, "events": 2, "ended": T0},
        {"tx_id": "802", "complete": False, "events": 1, "ended": None},
    ]


@pytest.mark.slow
def test_a_transaction_ends_whose_last_change_was_erased(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row that told the end of its transaction is a person's, and goes while gold waits for an
    earlier one."""
    project = Project(tmp_path, capsys.readouterr)
    project.write(
        "conf/sources/rows.yml",
        "name: rows\nformat: maxwell\nkeys: {bank.debit: [id]}\n"
        "columns: {bank.debit: {id: int, sum: int}}\n"
        "files: {path: 'landing/*.jsonl', framing: lines}\n",
    )
    project.write(
        "conf/tables/rows.yml",
        "source: rows\npublish: transaction\ntables: [{from: bank.debit, target: debit}]\n",
    )
    later = [maxwell(3, 802, xoffset=0), maxwell(4, 802, commit=True)]
    project.land("1.jsonl", [maxwell(1, 800, commit=True), maxwell(2, 801, xoffset=0), *later])
    assert "waits for the rest of transaction 801" in project.ingest("run").err
    erased = project.ingest("erase", "debit", "--key", "id=4", "--yes")
    assert erased.code == 0, erased.err
    project.land("2.jsonl", [maxwell(5, 801, commit=True)])
    assert "waits" not in project.ingest("run").err
    query = "SELECT id FROM gold.debit ORDER BY id"
    found = project.ingest("sql", query, "--json").records
    assert [row["id"] for row in found] == [1, 2, 3, 5]
