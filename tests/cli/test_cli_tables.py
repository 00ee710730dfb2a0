"""The command with Spark: one warehouse that is filled once, and everything that is asked of it."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Answer, Project, canal, canal_ddl, project_in

ROOT = Path(__file__).resolve().parents[2]
SHOP = """\
name: shop
format: canal
order: source
files:
  path: landing/shop*.jsonl
"""
TABLES = """\
source: shop
tables:
  - from: '*'
  - from: shop.stock
    columns: {amount: int}
    exclude: [secret]
"""
T0 = 1_700_000_000_000
PEN = {"id": "1", "name": "pen", "price": "1.10"}
CUP = {"id": "2", "name": "cup", "price": "4.00"}
FIVE = {"id": "1", "amount": "5", "secret": "s"}
STOCK = {"id": "int", "amount": "varchar(9)", "secret": "varchar(9)"}
ODD = {"id": "int", "op": "varchar(9)", "key": "varchar(9)"}
DEARER = canal("items", "UPDATE", {**PEN, "price": "1.20"}, old={"price": "1.10"}, es=T0, id_=2)
MESSAGES: list[Any] = [
    canal("items", "INSERT", PEN, es=T0, id_=1),
    DEARER,
    canal("items", "INSERT", CUP, es=T0, id_=3),
    DEARER,
    canal("items", "UPDATE", {**PEN, "id": "9"}, old={"id": "1"}, es=T0 + 1000, id_=4),
    canal("items", "DELETE", CUP, es=T0 + 2000, id_=5),
    '{"data": [',
    canal("stock", "INSERT", FIVE, es=T0, id_=6, types=STOCK),
    canal("stock", "INSERT", {**FIVE, "id": "2", "amount": "few"}, es=T0, id_=7, types=STOCK),
    canal("odd", "INSERT", {"id": "1", "op": "sell", "key": "k"}, es=T0, id_=8, types=ODD),
    canal_ddl("odd", "TRUNCATE TABLE odd", es=T0 + 1000, id_=9, type_="TRUNCATE"),
    canal_ddl("items", "ALTER TABLE items DROP COLUMN name", es=T0 + 2000, id_=10),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, Answer]:
    """A project after its first run, and what that printed."""
    folder = tmp_path_factory.mktemp("filled")
    with project_in(folder) as project:
        project.write("conf/sources/shop.yml", SHOP)
        project.write("conf/tables/shop.yml", TABLES)
        project.land("shop.jsonl", MESSAGES)
        answer = project.ingest("run", "--json")
    return folder, answer


@pytest.fixture
def project(filled: tuple[Path, Answer], capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(filled[0], capsys.readouterr)


def topic(project: Project) -> str:
    """Where its messages came from: a file is known by its place in the project."""
    return "landing/shop.jsonl"


def test_run_tells_what_it_did(filled: tuple[Path, Answer]) -> None:
    answer = filled[1]
    records = answer.records
    for record in records[1:]:
        assert record.pop("seconds") > 0
        # How many count as late is the merge's own business.
        assert isinstance(record.pop("late"), int)
        assert isinstance(record.pop("stale"), int)
    assert records == [
        {
            "kind": "source",
            "source": "shop",
            "messages": 12,
            "rows": 15,
            "rejects": 1,
            "error": None,
        },
        {
            "kind": "table",
            "table": "shop_items",
            "source": "shop",
            "events": 6,
            "inserted": 1,
            "updated": 0,
            "deleted": 0,
            "rejected": 0,
            "error": None,
        },
        {
            "kind": "table",
            "table": "shop_odd",
            "source": "shop",
            "events": 2,
            "inserted": 0,
            "updated": 0,
            "deleted": 0,
            "rejected": 0,
            "error": None,
        },
        {
            "kind": "table",
            "table": "shop_stock",
            "source": "shop",
            "events": 2,
            "inserted": 1,
            "updated": 0,
            "deleted": 0,
            "rejected": 1,
            "error": None,
        },
    ]
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "run: bronze shop: 12 messages",
        "run: silver shop: 15 rows, 1 reject",
        "run: gold: 3 tables with changes",
        "2 set aside; `ingest rejects list` shows them",
    ]


def test_a_second_run_finds_nothing(project: Project) -> None:
    answer = project.ingest("run")
    assert answer == (
        0,
        "source   messages   rows\n────────────────────────\nshop            0      0\n\n",
        "",
    )


def test_status(project: Project) -> None:
    query = "SELECT target, sum(late + stale) AS late FROM gold._progress GROUP BY target"
    late = {row["target"]: row["late"] for row in project.ingest("sql", query, "--json").records}
    nothing = {"rejected": 0, "parked": False, "error": None, "pending_ddl": 0}
    pos = [0, 1, T0, 1, 0, 0, 0, 0, 0, 0, 1]
    table: dict[str, Any] = {
        "kind": "table",
        "source": "shop",
        "rows_of_old_epochs": 0,
        "mode": "1",
        **{"masks": [], "merge_every": None, "next_merge": None},
        **nothing,
    }
    table["lag_seconds"] = table["waiting"] = 0
    records = project.ingest("status", "--json").records
    for record in records[1:]:
        assert abs(time.time() - T0 / 1000 - record.pop("age_seconds")) < 60
    assert records == [
        {
            "kind": "source",
            "source": "shop",
            "messages": 12,
            "decoded_rows": 14,
            "lag": 0,
            "lag_seconds": 0,
            "unread_files": 0,
            "unread_messages": None,
            "rejects": 1,
            "stepped_back": 0,
            "gaps": 0,
            "error": None,
        },
        {
            **table,
            "table": "shop_items",
            "rows": 1,
            "late": late["shop_items"],
            "last_pos": [*pos[:2], T0 + 2000, 5, *pos[4:8], 5, 0, 1],
            "freshness": "2023-11-14T22:13:22Z",
            "pending_ddl": 1,
        },
        {
            **table,
            "table": "shop_odd",
            "rows": 0,
            "late": late["shop_odd"],
            "last_pos": [*pos[:2], T0 + 1000, 9, *pos[4:8], 10, 0, 1],
            "freshness": "2023-11-14T22:13:21Z",
        },
        {
            **table,
            "table": "shop_stock",
            "rows": 1,
            "late": late["shop_stock"],
            "last_pos": [*pos[:2], T0, 7, *pos[4:8], 8, 0, 1],
            "freshness": "2023-11-14T22:13:20Z",
            "rejected": 1,
        },
    ]


def test_patterns_that_no_table_matches_are_named(project: Project) -> None:
    tables = project.folder / "conf" / "tables" / "shop.yml"
    written = tables.read_text()
    tables.write_text(f"{written}  - from: [shop.itmes, warehouse.*, shop.items]\n")
    told = (
        "source shop: no table so far matches `from: shop.itmes`; nearest: shop.items\n"
        "source shop: no table so far matches `from: warehouse.*`\n"
    )
    assert project.ingest("status").err.endswith(told)
    assert project.ingest("gold").err == told
    tables.write_text(written)
    source = project.folder / "conf" / "sources" / "shop.yml"
    written = source.read_text()
    source.write_text(f"{written}keys: {{shop.itmes: [id]}}\n")
    told = "source shop: no table so far is the `shop.itmes` of its `keys:`; nearest: shop.items\n"
    assert project.ingest("gold").err == told
    source.write_text(written)


def change(project: Project, offset: int, es: int, id_: int, **values: Any) -> dict[str, Any]:
    """One row of `history` as JSON has it."""
    row = {
        "op": "insert",
        "pos": [0, 1, es, id_, 0, 0, 0, 0, offset, 0, 1],
        "event_time": f"2023-11-14T22:13:{20 + (es - T0) // 1000}Z",
        "tx_id": None,
        "id": 1,
        "name": "pen",
        "price": "1.10",
        "key": {"id": "1"},
        "key_before": None,
        "before": None,
        "after": None,
        "source": "shop",
        "topic": topic(project),
        "partition": 0,
        "offset": offset,
        "row": 0,
        "batch": 1,
    }
    return {**row, **values}


def test_history_has_each_change_once_in_order(project: Project) -> None:
    one = {"id": "1"}
    dearer = {**PEN, "price": "1.20"}
    assert project.ingest("history", "shop_items", "--json").records == [
        change(project, 0, T0, 1, after=PEN),
        # Delivered a second time at offset 3.
        change(
            project,
            1,
            T0,
            2,
            op="update",
            price="1.20",
            key_before=one,
            before=PEN,
            after=dearer,
        ),
        change(project, 2, T0, 3, id=2, name="cup", price="4.00", key={"id": "2"}, after=CUP),
        change(
            project,
            4,
            T0 + 1000,
            4,
            op="update",
            id=9,
            key={"id": "9"},
            key_before=one,
            before=PEN,
            after={**PEN, "id": "9"},
        ),
        change(
            project,
            5,
            T0 + 2000,
            5,
            op="delete",
            id=2,
            name="cup",
            price="4.00",
            key={"id": "2"},
            before=CUP,
        ),
    ]


@pytest.mark.parametrize(
    ("key", "offsets"),
    [
        ("id=1", [0, 1, 4]),
        ("ID=9", [0, 1, 4]),
        ("id=+02", [2, 5]),
        ("id=3", []),
        ("price=1.2", [1]),
        ("price=4", [2, 5]),
    ],
)
def test_history_of_a_key(project: Project, key: str, offsets: list[int]) -> None:
    found = project.ingest("history", "gold.shop_items", "--key", key, "--json").records
    assert [row["offset"] for row in found] == offsets


def test_history_keeps_what_gold_hides_hidden(project: Project) -> None:
    found = project.ingest("history", "SHOP_STOCK", "--json").records
    assert [(row["amount"], row["after"]) for row in found] == [
        (5, {"id": "1", "amount": "5"}),
        (None, {"id": "2", "amount": "few"}),
    ]
    assert "secret" not in found[0]


def test_history_lets_the_users_columns_keep_their_names(project: Project) -> None:
    sold, cut = project.ingest("history", "shop_odd", "--json").records
    names = ["_op", "pos", "event_time", "tx_id", "id", "op", "key", "_key", "key_before"]
    assert list(sold)[:9] == names
    assert (sold["_op"], sold["op"], sold["key"], sold["_key"]) == (
        *("insert", "sell", "k"),
        {"id": "1"},
    )
    assert (cut["_op"], cut["op"], cut["after"]) == ("truncate", None, None)
    # A truncate concerns every key.
    rows = project.ingest("history", "shop_odd", "--key", "id=1", "--json").records
    assert [row["_op"] for row in rows] == ["insert", "truncate"]


def test_history_for_people_leaves_out_what_is_wide(project: Project) -> None:
    out = project.ingest("history", "shop_items").out
    first = out.splitlines()[0].split()
    # One change is of a key, and says which one it gave up.
    assert first == ["op", "event_time", "id", "name", "price", "key_before", "message"]
    assert len(out.splitlines()) == 2 + 5 + 1
    assert [line.count("id=") for line in out.splitlines()] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert "id=1" in project.ingest("history", "shop_items", "--key", "id=9").out.splitlines()[4]
    assert "key_before" not in project.ingest("history", "shop_items", "--key", "id=2").out
    first = project.ingest("history", "shop_items", "--verbose").out.splitlines()[0].split()
    assert first[-5:] == ["message", "pos", "key", "key_before", "batch"]


def test_sql_knows_every_name(project: Project) -> None:
    def counted(relation: str) -> int:
        [row] = project.ingest("sql", "--json", f"SELECT count(*) AS n FROM {relation}").records
        return int(row["n"])

    assert {name: counted(name) for name in NAMES} == NAMES


NAMES = {
    "bronze.messages": 12,
    "silver.cdc": 15,
    "silver.changes": 10,
    "silver.ddl": 1,
    "SILVER.Rejects": 1,
    "silver.schemas": 3,
    "silver.transactions": 0,
    "gold.shop_items": 1,
    "gold.`shop_odd`": 0,
    "gold._progress WHERE target = 'shop_items'": 1,
    "gold._ddl WHERE status = 'pending'": 1,
    "gold._rejects": 1,
    "history.shop_items": 5,
}


def test_sql_prints_values_exactly(project: Project) -> None:
    query = (
        "SELECT 9007199254740993L AS big, 9007199254740992L AS small, 1.50 AS price, "
        "timestamp'2024-02-29 12:00:00.25+08:00' AS at, timestamp_ntz'2024-02-29 12:00:00' AS wall,"
        " date'2024-02-29' AS day, binary('ab') AS bytes, map('a', 9007199254740993L) AS m, "
        "array(named_struct('x', 1.0d)) AS list, double('NaN') AS nan, CAST(NULL AS int) AS nothing"
    )
    assert project.ingest("sql", query, "--json").records == [
        {
            "big": "9007199254740993",
            "small": 9007199254740992,
            "price": "1.50",
            "at": "2024-02-29T04:00:00.250000Z",
            "wall": "2024-02-29T12:00:00",
            "day": "2024-02-29",
            "bytes": "YWI=",
            "m": {"a": "9007199254740993"},
            "list": [{"x": 1.0}],
            "nan": "nan",
            "nothing": None,
        }
    ]


def test_sql_for_people(project: Project) -> None:
    answer = project.ingest("sql", "SELECT id, name, price, _source_table FROM gold.shop_items")
    assert answer == (
        0,
        "id   name   price   _source_table\n"
        "─────────────────────────────────\n"
        " 9   pen     1.10   shop.items\n"
        "\n",
        "",
    )
    answer = project.ingest("sql", "SELECT id FROM range(1200)")
    assert len(answer.out.splitlines()) == 2 + 1000 + 1
    assert answer.err == "the first 1,000 rows; --json gives all\n"
    assert len(project.ingest("sql", "SELECT id FROM range(1200)", "--json").records) == 1200


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC 1", "query: expected one statement that only reads, got SELEC"),
        ("SELECT 1 1", "query: [PARSE_SYNTAX_ERROR] Syntax error at or near '1'"),
        (
            "SELECT * FROM gold.shop_itmes",
            "query: there is no table or view gold.shop_itmes; nearest: gold.shop_items",
        ),
        ("SELECT * FROM history.shop_od", "nearest: history.shop_odd"),
        ("SELECT nothing FROM gold.shop_items", "query: [UNRESOLVED_COLUMN"),
        ("SELECT 1/0", "query: [DIVIDE_BY_ZERO]"),
        ("SELECT 1/(id - 9) AS x FROM gold.shop_items", "query: [DIVIDE_BY_ZERO]"),
        ("SELECT CAST(name AS int) AS n FROM gold.shop_items", "query: [CAST_INVALID_INPUT]"),
        ("SELECT 1 AS a, 2 AS a", "query: several columns are called a; name them apart with AS"),
    ],
)
def test_sql_that_cannot_run_is_code_2(project: Project, query: str, said: str) -> None:
    answer = project.ingest("sql", query, "--json")
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def test_sql_lists_and_explains(project: Project) -> None:
    tables = project.ingest("sql", "SHOW TABLES IN gold", "--json").records
    names = [row["tableName"] for row in tables if not row["isTemporary"]]
    own = ["_ddl", "_progress", "_rejects", "_runs"]
    assert names == [*own, "shop_items", "shop_odd", "shop_stock"]
    [plan] = project.ingest("sql", "EXPLAIN SELECT * FROM gold.shop_odd", "--json").records
    assert "shop_odd" in plan["plan"]


def test_ddl_list_and_show(project: Project) -> None:
    found = project.ingest("ddl", "list", "--json").records
    assert [(row["statement"], row["status"], row["class"]) for row in found] == [
        ("TRUNCATE TABLE odd", "ignored", "none"),
        ("ALTER TABLE items DROP COLUMN name", "pending", "destructive"),
    ]
    entry = found[1]
    assert (
        list(entry)
        == (
            "id source db schema table target status class kind statement proposed pos event_time "
            "waiting_rows decided_by decided_at why"
        ).split()
    )
    assert (entry["source"], entry["target"], entry["kind"]) == (
        *("shop", "shop_items"),
        "drop_column",
    )
    assert project.ingest("ddl", "--json", "list", "--status", "pending").records == [entry]
    assert entry["proposed"] == "ALTER TABLE gold.shop_items DROP COLUMN `name`"
    assert entry["why"] == "its values go with it; added again it is a new column"
    [shown] = project.ingest("ddl", "show", str(entry["id"]), "--json").records
    there = "SELECT count(name) AS n FROM gold.shop_items"
    [held] = project.ingest("sql", there, "--json").records
    assert shown.pop("lost_rows") == held["n"] > 0
    assert shown == entry
    people = project.ingest("ddl", "show", str(entry["id"])[:6]).out
    assert f"id            {entry['id']}\n" in people
    answer = project.ingest("ddl", "show", "none")
    said = "command line: no schema change has an id that begins with `none`\n"
    assert (answer.code, answer.err) == (2, said)


def test_rejects_list_and_show(project: Project) -> None:
    decoding, typing = project.ingest("rejects", "list", "--json").records
    assert re.fullmatch("[0-9a-f]{40}", decoding.pop("id"))
    assert re.fullmatch("[0-9a-f]{40}", typing["id"])
    place = {"source": "shop", "topic": topic(project), "partition": 0, "row": 0, "status": "open"}
    assert decoding == {
        **place,
        "stage": "decode",
        "offset": 6,
        "target": None,
        "code": "bad_json",
        "error": decoding["error"],
        "value": "eyJkYXRhIjogWw==",
    }
    assert {name: typing[name] for name in ("stage", "offset", "target", "code", "error")} == {
        "stage": "gold",
        "offset": 8,
        "target": "shop_stock",
        "code": "type_mismatch",
        "error": "column amount: expected int, got few",
    }
    assert json.loads(base64.b64decode(typing["value"])) == {"id": "2", "amount": "few"}
    shown = project.ingest("rejects", "show", str(typing["id"])[:10]).out
    assert f"id         {typing['id']}\n" in shown
    assert "few" in shown
    listed = project.ingest("rejects", "list").out
    assert len(listed.splitlines()) == 2 + 2 + 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--source", "shp"], "`--source`: expected shop, got `shp`; nearest: shop"),
        (["history", "shop_itms"], "expected a target table, got `shop_itms`; nearest: shop_items"),
        (["history", "shop_items", "--key", "nam=1"], "got `nam`; nearest: name"),
        (
            ["history", "shop_items", "--key", "id=1' OR '1'='1"],
            "`--key id`: expected int, got `1' OR '1'='1`",
        ),
        (["ddl", "list", "--status", "pendig"], "nearest: pending"),
        (["gold", "--table", "shop_itms"], "no source table leads there; nearest: shop_items"),
        (["run", "--table", "shop_itms"], "no source table leads there; nearest: shop_items"),
        (["history", "zzz"], "got `zzz`; there are shop_items, shop_odd, shop_stock"),
    ],
)
def test_unknown_names_are_code_2(project: Project, arguments: list[str], said: str) -> None:
    answer = project.ingest(*arguments)
    assert answer.code == 2
    assert said in answer.err


def test_a_failed_source_is_named_and_the_others_go_on(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/gone.yml", SHOP.replace("shop", "gone").replace("landing", "none"))
    alone = project.ingest("bronze", "--json")
    assert alone.code == 2
    [record] = alone.records
    assert record["error"] is not None and f"source gone failed: {record['error']}\n" == alone.err
    project.write("conf/sources/shop.yml", SHOP)
    project.land("shop.jsonl", MESSAGES[:1])
    both = project.ingest("bronze", "--json")
    assert both.code == 1
    assert [(row["source"], row["messages"], row["error"]) for row in both.records] == [
        ("gone", 0, record["error"]),
        ("shop", 1, None),
    ]
    assert project.ingest("bronze", "--source", "shop").code == 0
    # Bronze is ahead of silver, and a file that came meanwhile of bronze.
    project.land("shop2.jsonl", MESSAGES[:1])
    status = project.ingest("status", "--json").records
    assert [(row["source"], row["lag"], row["unread_files"]) for row in status] == [
        ("gone", 0, None),
        ("shop", 1, 1),
    ]


def test_rejects_fail_a_source_of_which_nothing_was_ever_decoded(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SHOP)
    decoded: list[int] = []
    for number, message in enumerate(('{"data": [', MESSAGES[0], '{"data": [')):
        project.land(f"shop{number}.jsonl", [message])
        assert project.ingest("bronze").code == 0
        decoded.append(project.ingest("silver").code)
    assert decoded == [1, 0, 0]


def test_a_parked_table_is_named_and_code_1(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SHOP)
    row = {"id": "1", "a": "1", "A": "2"}
    twice = canal("items", "INSERT", row, es=T0, id_=1, types=dict.fromkeys(row, "int"))
    project.land("shop.jsonl", [twice])
    answer = project.ingest("run", "--json")
    assert answer.code == 1
    error = "columns `a` and `A` differ only in case; exclude them"
    assert f"table shop_items is parked: {error}\n" in answer.err
    table = answer.records[1]
    assert (table["table"], table["error"]) == ("shop_items", error)
    [_, found] = project.ingest("status", "--json").records
    assert (found["table"], found["rows"], found["parked"], found["error"]) == (
        *("shop_items", 0, True),
        error,
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_continuous_run_ends_when_told_to(
    tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SHOP)
    project.land("shop.jsonl", MESSAGES[:1])
    started = subprocess.Popen(
        [sys.executable, "-c", "from pipelines.cli.app import main; main()", "run", "--continuous"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: merges(tmp_path) == 2, started)
        # What comes later is brought too.
        project.land("shop2.jsonl", MESSAGES[2:3])
        wait_for(lambda: merges(tmp_path) == 3, started)
        started.send_signal(number)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode == 0, err
    assert f"{number.name}: ends after the batch that is being written" in err
    assert "Traceback" not in err
    assert "shop_items" in out


def merges(folder: Path) -> int:
    """The commits of the gold table."""
    return len(list((folder / "warehouse/gold/shop_items/_delta_log").glob("*.json")))


def wait_for(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something is so, as long as the process runs."""
    end = time.monotonic() + 240
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.2)
