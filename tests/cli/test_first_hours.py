"""What a newcomer does in the first hours: own data, three days, a first configuration that was
wrong and is put right. The command is run, its screens are read, and every table is compared with
what it must hold."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl

T0 = 1_700_000_000_000
BILLING = """\
name: billing
format: debezium
files: {path: 'landing/billing-*.jsonl'}
keys: {billing.public.invoices: [id]}
"""


def invoice(op: str, row: dict[str, Any], *, at: int, old: Any = None) -> dict[str, Any]:
    """A change of `billing.public.invoices` as Debezium sends it without a schema."""
    before, after = (row, None) if op == "d" else (old, row)
    source = {
        **{"connector": "postgresql", "db": "billing", "schema": "public", "table": "invoices"},
        **{"ts_ms": T0 + at, "txId": at, "lsn": 1000 + at, "snapshot": "false"},
    }
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": T0 + at}


def inv(id_: Any, total: Any, due: Any, **more: Any) -> dict[str, Any]:
    return {"id": id_, "total": total, "due": due, **more}


MONDAY = [
    invoice("c", inv(1, "10.50", 19700), at=1),
    invoice("c", inv(2, "7.25", 19701), at=2),
    invoice("c", inv(3, "few", 19702), at=3),
    invoice("u", inv(2, "8.25", 19701), at=4, old=inv(2, "7.25", 19701)),
    invoice("c", inv(4, "1.00", 19703), at=5),
    invoice("d", inv(4, "1.00", 19703), at=6),
]


SEEN = Path(__file__).parent / "first_hours"
SCREENS = {
    "run": ("run",),
    "status": ("status",),
    "ddl_list": ("ddl", "list"),
    "rejects_list": ("rejects", "list"),
    "history": ("history", "shop_items"),
}
"""What a person looks at, and under which name in SEEN it is kept."""
HELD = {
    "bronze": "SELECT source, topic, `partition`, offset, decode(value, 'UTF-8') AS value, epoch "
    "FROM bronze.messages ORDER BY source, topic, offset",
    "silver": "SELECT * EXCEPT (value, decoded_at, value_hash, key_hash, batch) FROM silver.cdc "
    "ORDER BY source, topic, offset, `row`, kind",
    "shop_items": "SELECT * FROM gold.shop_items ORDER BY id",
    "billing_invoices": "SELECT * FROM gold.billing_invoices ORDER BY id",
    "history_items": "SELECT * EXCEPT (batch) FROM history.shop_items ORDER BY pos",
    "history_invoices": "SELECT * EXCEPT (batch) FROM history.billing_invoices ORDER BY pos",
    "ddl": "SELECT source, `table`, target, status, class, kind, statement, decided_by, why "
    "FROM gold._ddl ORDER BY pos",
    "rejects": "SELECT stage, source, topic, offset, `row`, target, code, error, misfits, status "
    "FROM gold._rejects ORDER BY topic, offset",
    "progress": "SELECT target, sum(events) AS events, sum(inserted) AS inserted, sum(updated) AS "
    "updated, sum(deleted) AS deleted, sum(late) AS late, sum(stale) AS stale, sum(rejected) AS "
    "rejected FROM gold._progress GROUP BY target ORDER BY target",
}
"""What each table holds, but for what differs from run to run, and batches of silver, of which a
redecode takes several."""


def squeezed(text: str) -> str:
    """Printed text, whatever lines it was broken into."""
    return " ".join(text.split())


def gold(project: Project, table: str, columns: str) -> list[tuple[Any, ...]]:
    answer = project.ingest("sql", f"SELECT {columns} FROM gold.{table} ORDER BY 1", "--json")
    assert answer.code == 0, answer.err
    return [tuple(row.values()) for row in answer.records]


def types(project: Project, table: str) -> dict[str, str]:
    found = project.ingest("sql", f"DESCRIBE TABLE gold.{table}", "--json").records
    return {
        row["col_name"]: row["data_type"]
        for row in found
        if row["data_type"] and not row["col_name"].startswith(("_", "#"))
    }


def rejects(project: Project) -> list[dict[str, Any]]:
    return project.ingest("rejects", "list", "--json").records


@pytest.mark.slow
def test_what_does_not_fit_a_rebuilt_table_is_among_the_rejects(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/billing.yml", BILLING)
    project.land("billing-1.jsonl", MONDAY)
    assert project.ingest("run").code == 0
    table = "billing_invoices"
    assert gold(project, table, "id, total") == [("1", "10.50"), ("2", "8.25"), ("3", "few")]

    # The types that were forgotten; the table is made with them, and every key is accounted for.
    tables = (
        "source: billing\ntables: [{from: '*', columns: {id: bigint, total: 'decimal(12,2)'}}]\n"
    )
    project.write("conf/tables/billing.yml", tables)
    answer = project.ingest("rebuild", table, "--json")
    assert answer.code == 0, answer.err
    assert (answer.records[0]["rows"], answer.records[0]["rejected"]) == (2, 1)
    assert f"{table}: column total string becomes decimal(12,2)\n" in answer.err
    assert "1 set aside; `ingest rejects list` shows them" in answer.err
    assert types(project, table) == {"id": "bigint", "total": "decimal(12,2)", "due": "string"}
    assert gold(project, table, "id, total") == [(1, "10.50"), (2, "8.25")]
    [reject] = rejects(project)
    assert (reject["code"], reject["offset"], reject["status"]) == ("type_mismatch", 2, "open")
    answer = project.ingest("reconcile", table)
    assert answer.code == 0, answer.err
    assert "1 change of history has no place in gold, which the rejects list" in answer.err

    # As string again, all fit; whoever noted the last one had a clock that is ahead.
    folder = tmp_path / "warehouse/gold/_rejects"
    spark.sql(f"UPDATE delta.`{folder}` SET at = at + INTERVAL 2 MINUTES")
    (tmp_path / "conf/tables/billing.yml").unlink()
    assert project.ingest("rebuild", table, "--json").records[0]["rejected"] == 0
    assert [row["status"] for row in rejects(project)] == ["resolved"]
    assert gold(project, table, "id, total") == [("1", "10.50"), ("2", "8.25"), ("3", "few")]

    # A change of mode is confirmed, and says what changes.
    project.write(
        "conf/tables/billing.yml", tables.replace("columns", "stored_as_scd_type: 2, columns")
    )
    answer = project.ingest("rebuild", table)
    assert answer.code == 2
    assert f"{table}: stored_as_scd_type 1 becomes 2\n" in answer.err
    assert f"`ingest rebuild {table} --yes` changes that; nothing was touched" in answer.err
    assert project.ingest("rebuild", table, "--yes").code == 0
    versions = gold(project, table, "id, total, _current")
    assert len(versions) == 4 and sorted(str(v[1]) for v in versions if v[2]) == ["10.50", "8.25"]
    assert project.ingest("reconcile", table).code == 0
    project.land("billing-2.jsonl", [invoice("u", inv(1, "11.00", 19700), at=9)])
    assert project.ingest("run").code == 0
    assert project.ingest("reconcile", table).code == 0


SHOP = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/shop-*.jsonl'}\n"
PEN = {"id": "1", "name": "pen", "price": "1.10"}
CUP = {"id": "2", "name": "cup", "price": "4.00"}
COLUMNS = """\
columns: {billing.public.invoices: {id: bigint, total: 'numeric(12,2)', due: date}}
"""
INVOICES = "billing_invoices"
BILLED = [(1, "10.50", "2023-12-09"), (2, "8.25", "2023-12-10")]


def put_right(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are declared that were forgotten: silver is decoded again, gold made again, once."""
    assert types(project, INVOICES) == {"id": "string", "total": "string", "due": "string"}
    project.write("conf/sources/billing.yml", BILLING + COLUMNS)
    project.land("billing-2.jsonl", [invoice("c", inv(5, "3.00", 19704), at=9)])
    project.land("shop-2.jsonl", [canal("items", "DELETE", CUP, es=T0 + 2000, id_=3)])
    answer = project.ingest("run")
    assert (answer.code, "`ingest redecode --source billing`" in squeezed(answer.err)) == (1, True)
    assert gold(project, "shop_items", "id, price") == [(1, "1.10")]

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.operations.redecode._forget_rejects", _die)
        assert project.ingest("redecode", "--source", "billing").code == 1
    for verb in (("gold",), ("rebuild", INVOICES)):
        answer = project.ingest(*verb)
        assert answer.code == 1
        assert "run `ingest redecode --source billing` once more" in squeezed(answer.err)

    for _ in range(2):
        answer = project.ingest("redecode", "--source", "billing", "--json")
        assert answer.code == 0, answer.err
        [done] = [row for row in answer.records if row["kind"] == "redecoded"]
        assert (done["messages"], done["rejects"], done["kept"]) == (6, 0, 0)
        [made] = [row for row in answer.records if row["kind"] == "rebuilt"]
        assert (made["table"], made["rows"], made["rejected"]) == (INVOICES, 2, 1)
        assert gold(project, INVOICES, "id, total, due") == BILLED
    assert types(project, INVOICES) == {"id": "bigint", "total": "decimal(12,2)", "due": "date"}
    [aside] = rejects(project)
    assert (aside["code"], aside["topic"], aside["offset"]) == (
        *("type_mismatch", "landing/billing-1.jsonl", 2),
    )
    assert project.ingest("run").code == 0
    assert gold(project, INVOICES, "id, total, due") == [*BILLED, (5, "3.00", "2023-12-13")]
    assert project.ingest("reconcile", INVOICES).code == 0
    assert len(project.ingest("history", INVOICES, "--json").records) == 7


def _die(*_: object) -> None:
    raise RuntimeError("killed")


def third_day(project: Project) -> None:
    """Schema changes of every class, a late change, a junk message; what people see of it, and
    what every table holds."""
    red = {"id": "3", "name": "mug", "price": "2.00", "color": "red"}
    biro = {**PEN, "name": "biro", "color": None}
    altered = (
        ("ADD COLUMN color varchar(9)", 3000, 4),
        ("MODIFY COLUMN name varchar(60)", 4500, 6),
        ("DROP COLUMN price", 6000, 8),
    )
    added, widened, dropped = (
        canal_ddl("items", f"ALTER TABLE items {clause}", es=T0 + at, id_=id_)
        for clause, at, id_ in altered
    )
    project.land(
        "shop-3.jsonl",
        [
            added,
            canal("items", "INSERT", red, es=T0 + 4000, id_=5),
            widened,
            canal("items", "UPDATE", biro, es=T0 + 5000, id_=7, old={"name": "pen"}),
            "no message",
            dropped,
            canal("items", "UPDATE", {**PEN, "name": "late"}, es=T0 + 500, id_=2, old={}),
        ],
    )
    for name, arguments in SCREENS.items():
        answer = project.ingest(*arguments)
        assert answer.code == 0, answer.err
        assert screen(answer.out) == (SEEN / f"{name}.txt").read_text(), name
    for name, query in HELD.items():
        answer = project.ingest("sql", query, "--json")
        assert answer.code == 0, answer.err
        assert answer.out == (SEEN / f"{name}.jsonl").read_text(), name
    # The price that goes is taken back: the source has it again.
    [waits] = project.ingest("ddl", "list", "--status", "pending", "--json").records
    assert (waits["kind"], waits["waiting_rows"]) == ("drop_column", 0)
    answer = project.ingest("ddl", "reject", waits["id"], "--by", "ada", "--why", "it stays")
    assert answer.code == 0, answer.err
    [decided] = project.ingest("ddl", "list", "--status", "rejected", "--json").records
    assert (decided["decided_by"], decided["why"]) == ("ada", "it stays")


def screen(printed: str) -> str:
    """What a screen shows, but for ids, ages and times of runs, which are others each time, and so
    are the widths of their columns."""
    printed = re.sub(r"(?m)^[0-9a-f]{8,12}\b", "ID", printed)
    printed = re.sub(r"[\d,]+ [dy] behind", "AGE behind", printed)
    printed = re.sub(r"(?m)\b\d+\.\d{1,3}(?= *$)", "SECONDS", printed)
    printed = re.sub(r" {2,}", "  ", re.sub(r"─+", "─", printed))
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def drop_by_hand(project: Project) -> None:
    """A gold table is dropped by hand: it does not begin anew, it is made again, whole."""
    shutil.rmtree(project.folder / "warehouse/gold/shop_items")
    answer = project.ingest("run")
    said = "the table gold.shop_items is gone, which held what was applied so far; `ingest rebuild"
    assert (answer.code, said in squeezed(answer.err)) == (1, True)
    assert project.ingest("rebuild", "shop_items").code == 0
    rows = [(1, "1.10", None), (3, "2.00", "red")]
    assert gold(project, "shop_items", "id, price, color") == rows
    assert project.ingest("run").code == 0

    # Names are matched without case everywhere, and unknown ones are named before anything is done.
    blue = {**PEN, "id": "4", "color": "blue"}
    project.land("shop-4.jsonl", [canal("items", "INSERT", blue, es=T0 + 9000, id_=9)])
    answer = project.ingest("run", "--table", "shop_itms", "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "nearest: shop_items" in answer.err
    assert project.ingest("run", "--table", "SHOP_Items").code == 0
    assert gold(project, "shop_items", "id, price, color") == [*rows, (4, "1.10", "blue")]


def lose_silver(project: Project) -> None:
    """Silver is removed by hand: its batches do not begin anew below what gold has applied."""
    shutil.rmtree(project.folder / "warehouse/silver/cdc")
    answer = project.ingest("run")
    said = "the table silver.cdc is gone, which held messages of billing, shop; `ingest reset"
    assert (answer.code, said in squeezed(answer.err)) == (1, True), answer.err
    for source in ("billing", "shop"):
        assert project.ingest("reset", "--source", source, "--yes").code == 0
    assert project.ingest("run").code == 0
    rows = [(1, "1.10", None), (3, "2.00", "red"), (4, "1.10", "blue")]
    assert gold(project, "shop_items", "id, price, color") == rows


def read_wrongly(project: Project) -> None:
    """A source of which nothing can be decoded fails; so does one that sets aside too much."""
    junk = SHOP.replace("shop", "till").replace("canal", "maxwell")
    project.write("conf/sources/till.yml", junk)
    project.land("till-1.jsonl", [canal("sales", "INSERT", PEN, es=T0, id_=1)] * 2)
    answer = project.ingest("run", "--source", "till")
    assert answer.code == 1
    assert "source till: all 2 messages were set aside, none could be decoded" in squeezed(
        answer.err
    )
    assert len(project.ingest("rejects", "list", "--source", "till", "--json").records) == 2
    project.write("conf/sources/till.yml", SHOP.replace("shop", "till"))
    table = "conf/tables/till.yml"
    project.write(table, "source: till\ntables: [{from: '*', target: 'till_{table}'}]\n")
    answer = project.ingest("redecode", "--source", "till", "--json")
    assert answer.code == 0, answer.err
    assert gold(project, "till_sales", "id, price") == [(1, "1.10")]
    assert project.ingest("rejects", "list", "--source", "till", "--json").records == []

    rows = [canal("sales", "INSERT", {**PEN, "id": str(n)}, es=T0, id_=n) for n in range(2, 11)]
    for bound, code in (("10%", 0), ("9%", 1), ("0", 1)):
        limited = f"rejects: {{fail_above: {bound}}}\n"
        project.write("conf/sources/till.yml", SHOP.replace("shop", "till") + limited)
        project.land(f"till-{bound}.jsonl", ["{", *rows])
        answer = project.ingest("run", "--source", "till")
        assert answer.code == code, answer.err
    assert "source till: 1 of 10 messages was set aside, more than rejects.fail_above" in squeezed(
        answer.err
    )


def look_after_rejects(project: Project) -> None:
    """What was set aside is counted by kind, and dismissed once it is looked after."""
    [kind] = project.ingest("rejects", "summary", "--source", "till", "--json").records
    assert [kind[name] for name in ("stage", "code", "status", "count")] == [
        *("decode", "bad_json", "open", 3),
    ]
    answer = project.ingest("rejects", "list", "--source", "till", "--limit", "2", "--json")
    listed = answer.records
    assert len(listed) == 2
    short = listed[0]["id"][:12]
    answer = project.ingest("rejects", "dismiss", short, "--why", "a test", "--by", "me", "--json")
    [dismissed] = answer.records
    assert (dismissed["id"], dismissed["status"]) == (listed[0]["id"], "dismissed")
    assert dismissed["error"].endswith(" [dismissed by me: a test]")
    again = ("--code", "bad_json", "--why", "a test too", "--by", "me", "--json")
    [all_] = project.ingest("rejects", "dismiss", "--source", "till", *again).records
    assert (all_["source"], all_["status"], all_["count"]) == ("till", "dismissed", 2)
    assert project.ingest("rejects", "dismiss", "--source", "till", *again).records == []
    rest = project.ingest("rejects", "list", "--source", "till", "--json").records
    assert [row["error"].rpartition(" [")[2] for row in rest] == [
        "dismissed by me: a test]",
        "dismissed by me: a test too]",
        "dismissed by me: a test too]",
    ]
    assert all(row["value"] for row in rest)
    counts = {
        status: len(
            project.ingest(
                "rejects", "list", "--source", "till", "--status", status, "--json"
            ).records
        )
        for status in ("open", "dismissed", "resolved")
    }
    assert counts == {"open": 0, "dismissed": 3, "resolved": 0}
    statuses = project.ingest("status", "--json").records
    [till] = [row for row in statuses if row["kind"] == "source" and row["source"] == "till"]
    assert till["rejects"] == 0
    assert (
        project.ingest("rejects", "replay", "--source", "till", "--json").records[0]["tried"] == 0
    )
    answer = project.ingest("rejects", "list", "--status", "opn")
    assert (answer.code, "nearest: open" in answer.err) == (2, True)


def move_the_point(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement moves the point of a decimal whose bytes only the declaration can read: nothing
    behind it comes in as another number. A decimal that is text comes in as it is."""

    def account(place: int, table: str = "accounts", **more: Any) -> dict[str, Any]:
        source: dict[str, Any] = {"connector": "mysql", "db": "bank", "table": table, "file": "b.1"}
        source |= {"ts_ms": T0 + place, "pos": place, "row": 0, "snapshot": "false"}
        return {"source": source, "ts_ms": T0 + place, **more}

    def balance(text: str) -> dict[str, Any]:
        return {"op": "c", "before": None, "after": {"id": len(text), "balance": text}}

    declared = (
        "name: bank\nformat: debezium\nfiles: {path: 'landing/bank-*.jsonl'}\n"
        "keys: {bank.accounts: [id], bank.loans: [id]}\n"
        "columns:\n"
        "  bank.accounts: {id: int, balance: 'decimal(12,2)'}\n"
        "  bank.loans: {id: int, balance: 'decimal(12,2)'}\n"
    )
    project.write("conf/sources/bank.yml", declared)
    loan = account(1, "loans", **balance("7.00"))
    project.land("bank-1.jsonl", [account(1, **balance("BBo=")), loan])
    assert project.ingest("run", "--source", "bank").code == 0
    assert gold(project, "bank_accounts", "id, balance") == [(4, "10.50")]
    moved = "ALTER TABLE accounts MODIFY balance decimal(16,4)"
    altered = [
        account(2, table, ddl=moved.replace("accounts", table), databaseName="bank")
        for table in ("accounts", "loans")
    ]
    loan = account(3, "loans", **balance("2.7183"))
    project.land("bank-2.jsonl", [*altered, account(3, **balance("AaAoQAAB")), loan])
    answer = project.ingest("run", "--source", "bank")
    assert answer.code == 1
    said = "expected bank.accounts.balance to stay decimal(12,2), as `columns:` of source bank has"
    assert said in squeezed(answer.err)
    assert gold(project, "bank_accounts", "id, balance") == [(4, "10.5000")]
    assert gold(project, "bank_loans", "id, balance") == [(4, "7.0000"), (6, "2.7183")]
    answer = project.ingest("rebuild", "bank_loans")
    assert answer.code == 0, answer.err
    answer = project.ingest("rebuild", "bank_accounts")
    assert (answer.code, said in squeezed(answer.err)) == (1, True)
    # The old messages are gone, and a snapshot has the rows as they are now.
    for name in ("1", "2"):
        (project.folder / f"landing/bank-{name}.jsonl").unlink()
    project.write("conf/sources/bank.yml", declared.replace("12,2", "16,4"))
    assert project.ingest("reset", "--source", "bank", "--bronze", "--yes").code == 0
    project.land("bank-3.jsonl", [account(4, **{**balance("AZpE"), "op": "r"})])
    with monkeypatch.context() as patch:
        # A terminal shows which table is at work, and of how many.
        patch.setattr("sys.stderr.isatty", lambda: True)
        answer = project.ingest("run", "--source", "bank")
    assert answer.code == 0, answer.err
    assert "run: gold 1/1 bank_accounts" in answer.err
    assert gold(project, "bank_accounts", "id, balance") == [(4, "10.5028")]

    # A column was string when its widening came: made anew it is typed, and widened by policy.
    fund = {"before": None, "op": "c"}
    widened = account(6, "funds", ddl="ALTER TABLE funds MODIFY units bigint", databaseName="bank")
    named = account(8, "funds", ddl="ALTER TABLE funds ADD name varchar(9)", databaseName="bank")
    project.land(
        "bank-4.jsonl",
        [
            account(5, "funds", **fund, after={"id": 1, "units": 7}),
            widened,
            account(7, "funds", **fund, after={"id": 2, "units": 9 * 10**9}),
            named,
            account(9, "funds", **fund, after={"id": 3, "units": None, "name": "bond"}),
        ],
    )
    answer = project.ingest("run", "--source", "bank")
    assert answer.code == 0, answer.err
    # What a statement gives a type has one.
    assert "bank_funds: no message of a row says the types of id, units: string." in answer.err
    assert types(project, "bank_funds") == {"id": "string", "units": "string", "name": "string"}
    keyed = declared.replace("12,2", "16,4").replace("[id]}", "[id], bank.funds: [id]}")
    project.write("conf/sources/bank.yml", keyed + "  bank.funds: {id: int, units: int}\n")
    answer = project.ingest("redecode", "--source", "bank")
    assert (answer.code, "bank_funds: column units string becomes int" in answer.err) == (1, True)
    # One advice, wherever it stands.
    advice = "silver of bank was decoded again, by which its key or mode changes; confirm with "
    advice += "`ingest rebuild bank_funds --yes`"
    assert answer.err.endswith(f"table bank_funds is parked: {advice}\n")
    assert "bank_funds" not in answer.out
    [parked] = [row for row in project.ingest("status", "--json").records if row.get("parked")]
    assert (parked["table"], parked["error"]) == ("bank_funds", advice)
    answer = project.ingest("rebuild", "bank_funds", "--yes")
    assert answer.code == 0, answer.err
    assert types(project, "bank_funds") == {"id": "int", "units": "bigint", "name": "string"}
    assert gold(project, "bank_funds", "*")[1][:2] == (2, 9 * 10**9)
    listed = project.ingest("ddl", "list", "--json").records
    assert [(e["class"], e["status"]) for e in listed if e["table"] == "funds"] == [
        *(("widening", "applied"), ("additive", "applied")),
    ]
    aside = project.ingest("rejects", "list", "--source", "bank", "--json").records
    assert [(row["code"], row["status"]) for row in aside] == [("type_mismatch", "resolved")]


def begin_anew(project: Project) -> None:
    """A target, then a source, is taken away and made again by the next run."""
    before = gold(project, "shop_items", "id, price, color")
    answer = project.ingest("reset", "shop_items")
    assert answer.code == 2
    assert "nothing was touched; `ingest reset shop_items --yes` takes this away" in squeezed(
        answer.err
    )
    assert gold(project, "shop_items", "id, price, color") == before
    gone = project.ingest("reset", "shop_items", "--yes", "--json").records
    assert {"kind": "reset", "what": "gold.shop_items", "rows": 3} in gone
    assert project.ingest("run").code == 0
    assert gold(project, "shop_items", "id, price, color") == before
    billed = gold(project, INVOICES, "id, total, due")
    assert project.ingest("reset", "--source", "billing").code == 2
    assert project.ingest("reset", "--source", "billing", "--yes").code == 0
    answer = project.ingest("run", "--json")
    assert answer.code == 0, answer.err
    [source] = [row for row in answer.records if row.get("source") == "billing" and "rows" in row]
    assert (source["messages"], source["error"]) == (0, None)
    assert gold(project, INVOICES, "id, total, due") == billed
    for table in (INVOICES, "shop_items", "till_sales"):
        assert project.ingest("reconcile", table).code == 0


@pytest.mark.slow
def test_the_first_hours(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path / "project", capsys.readouterr)
    project.write("conf/sources/billing.yml", BILLING)
    project.write("conf/sources/shop.yml", SHOP)
    project.land("billing-1.jsonl", MONDAY)
    project.land(
        "shop-1.jsonl",
        [
            canal("items", "INSERT", PEN, es=T0, id_=1),
            canal("items", "INSERT", CUP, es=T0 + 1000, id_=2),
        ],
    )
    assert project.ingest("run").code == 0
    put_right(project, monkeypatch)

    # The project moves, its files are copied: nothing of it is read twice.
    moved = tmp_path / "elsewhere"
    shutil.copytree(project.folder, moved, copy_function=shutil.copyfile)
    shutil.rmtree(project.folder)
    project = Project(moved, capsys.readouterr)
    answer = project.ingest("run", "--json")
    assert answer.code == 0, answer.err
    assert [row["messages"] for row in answer.records] == [0, 0]
    statuses = project.ingest("status", "--json").records
    assert [row["unread_files"] for row in statuses if row["kind"] == "source"] == [0, 0]

    third_day(project)
    drop_by_hand(project)
    lose_silver(project)
    read_wrongly(project)
    look_after_rejects(project)
    begin_anew(project)
    move_the_point(project, monkeypatch)
