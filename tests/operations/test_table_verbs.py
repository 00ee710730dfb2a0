"""as-of, rebuild and reconcile, by the command, on tables that it made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.gold import refold
from tests.support.project import Answer, Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("as_shipped")

SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = """\
source: shop
tables:
  - from: '*'
  - from: shop.reshaped
    ddl: {destructive: apply}
  - from: shop.stock
    deletes: soft
"""
T0 = 1_700_000_000_000
PEN = {"id": "1", "name": "pen", "price": "1.10"}
CUP = {"id": "2", "name": "cup", "price": "4.00"}
MUG = {"id": "3", "name": "mug", "price": None}
DEARER = {**PEN, "price": "1.20"}


def _update(table: str, row: Any, old: Any, *, es: int, id_: int) -> dict[str, Any]:
    return canal(table, "UPDATE", row, es=T0 + es, id_=id_, old=old)


MONDAY = [
    canal("items", "INSERT", PEN, es=T0, id_=1),
    canal("items", "INSERT", CUP, es=T0 + 1000, id_=2),
    _update("items", {**PEN, "price": "1.30"}, {"price": "1.20"}, es=4000, id_=5),
    canal("stock", "INSERT", PEN, es=T0, id_=1),
    canal("stock", "INSERT", CUP, es=T0, id_=2),
    canal("plain", "INSERT", PEN, es=T0, id_=1),
    canal("plain", "INSERT", CUP, es=T0 + 1000, id_=2),
    canal("reshaped", "INSERT", PEN, es=T0, id_=1),
    _update("reshaped", {**PEN, "name": "7"}, {"name": "pen"}, es=1000, id_=2),
]
TUESDAY = [
    # Late, then a delete, a key that changes, and an insert.
    _update("items", DEARER, {"price": "1.10"}, es=2000, id_=3),
    canal("items", "DELETE", CUP, es=T0 + 3000, id_=4),
    _update("items", {**PEN, "id": "9", "price": "1.30"}, {"id": "1"}, es=5000, id_=6),
    canal("items", "INSERT", MUG, es=T0 + 6000, id_=7),
    canal("stock", "DELETE", PEN, es=T0 + 2000, id_=3),
    canal_ddl("stock", "TRUNCATE TABLE stock", es=T0 + 3000, id_=4, type_="TRUNCATE"),
    canal("stock", "INSERT", MUG, es=T0 + 4000, id_=5),
    # Nothing but whole images, in order.
    _update("plain", DEARER, {"price": "1.10"}, es=2000, id_=3),
    canal("plain", "DELETE", CUP, es=T0 + 3000, id_=4),
    canal_ddl(
        "reshaped",
        "ALTER TABLE reshaped DROP COLUMN price, MODIFY name int",
        es=T0 + 2000,
        id_=3,
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A project after two runs."""
    folder = tmp_path_factory.mktemp("verbs")
    project = Project(folder, lambda: ("", ""))
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    for name, messages in (("1.jsonl", MONDAY), ("2.jsonl", TUESDAY)):
        project.land(name, messages)
        assert project.ingest("run", "--json").code == 0
    return folder


@pytest.fixture
def project(folder: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(folder, capsys.readouterr)


def at(es: int, id_: int) -> list[int]:
    """The position of a change at es `T0 + es`."""
    return [0, 1, T0 + es, id_]


def stood(project: Project, table: str, *when: str) -> list[tuple[Any, ...]]:
    """(id, price, place in the source's log, when deleted) of each row of a past table."""
    answer = project.ingest("as-of", table, *when, "--json")
    assert answer.code == 0, answer.err
    return [
        (row["id"], row["price"], row["_pos"][2] - T0, row.get("_deleted_at"))
        for row in answer.records
    ]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2023-11-14 22:13:20", [(1, "1.10", 0, None)]),
        ("2023-11-15T00:13:22+02:00", [(1, "1.20", 2000, None), (2, "4.00", 1000, None)]),
        ("2023-11-14T22:13:23.999999Z", [(1, "1.20", 2000, None)]),
    ],
)
def test_as_of_a_time(project: Project, time: str, expected: list[tuple[Any, ...]]) -> None:
    assert stood(project, "shop_items", "--time", time) == expected


@pytest.mark.parametrize(
    ("pos", "expected"),
    [
        ([0, 0], []),
        (at(2000, 2), [(1, "1.10", 0, None), (2, "4.00", 1000, None)]),
        (at(5000, 6)[:3], [(9, "1.30", 5000, None)]),
    ],
)
def test_as_of_a_position(
    project: Project, pos: list[int], expected: list[tuple[Any, ...]]
) -> None:
    assert stood(project, "gold.shop_items", "--pos", json.dumps(pos)) == expected


def test_as_of_folds_soft_deletes_and_truncates(project: Project) -> None:
    both = [(1, "1.10", 2000, "2023-11-14T22:13:22Z"), (2, "4.00", 0, None)]
    assert stood(project, "shop_stock", "--pos", json.dumps(at(2000, 3))) == both
    cut = (2, "4.00", 3000, "2023-11-14T22:13:23Z")
    assert stood(project, "shop_stock", "--pos", json.dumps(at(3000, 4))) == [both[0], cut]


def test_what_a_past_table_does_not_show_as_it_was_is_said(project: Project) -> None:
    then = project.ingest("as-of", "shop_reshaped", "--time", "2023-11-14T22:13:20Z", "--json")
    assert [{"id": row["id"], "name": row["name"]} for row in then.records] == [
        {"id": 1, "name": None}
    ]
    sent = "; `ingest history shop_reshaped` has it as sent\n"
    assert then.err == (
        f"since then price was dropped and is not shown{sent}"
        f"since then name changed its type: what does not fit it is NULL{sent}"
    )
    now = project.ingest("as-of", "shop_reshaped", "--time", "2023-11-14T22:13:22Z", "--json")
    assert now.err == ""


def test_as_of_for_people(project: Project) -> None:
    answer = project.ingest("as-of", "shop_plain", "--time", "2023-11-14T22:13:21Z")
    assert answer == (
        0,
        "id   name   price   _event_time            _source_table\n"
        "────────────────────────────────────────────────────────\n"
        " 1   pen     1.10   2023-11-14T22:13:20Z   shop.plain\n"
        " 2   cup     4.00   2023-11-14T22:13:21Z   shop.plain\n"
        "\n",
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["as-of", "shop_items"], "expected either --time or --pos"),
        (["as-of", "shop_items", "--time", "soon"], "`--time`: expected a date or time like"),
        (["as-of", "shop_items", "--pos", "[]"], "`--pos`: expected one to 11 integers"),
        (["as-of", "shop_items", "--pos", "[1.5]"], "got `[1.5]`"),
        (["as-of", "shop_itms", "--pos", "[0]"], "nearest: shop_items"),
        (["rebuild", "shop_itms"], "nearest: shop_items"),
        (["reconcile", "shop_itms"], "nearest: shop_items"),
        (["reconcile", "shop_items", "--format", "csv"], "--format needs --snapshot"),
        (["reconcile", "shop_items", "--snapshot", "x", "--format", "cvs"], "nearest: csv"),
    ],
)
def test_mistakes_are_code_2(project: Project, arguments: list[str], said: str) -> None:
    answer = project.ingest(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


TARGETS = ("shop_items", "shop_stock", "shop_plain")


@pytest.mark.parametrize("target", TARGETS)
def test_reconcile_finds_nothing(project: Project, target: str) -> None:
    answer = project.ingest("reconcile", target, "--json")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"{target}: gold has ") and "; no difference" in answer.err


@pytest.mark.parametrize(
    ("target", "text", "differences"),
    [
        ("shop_items", "ID,name,price\n3,mug,\n9,pen,1.3\n", []),
        # Deleted rows that are kept are not the source's.
        ("shop_stock", "price,id\n,3\n", []),
        (
            "shop_items",
            "id,price,more\n3,2,x\n4,,y\n",
            [
                ("different", 3, ["price"], {"price": None}, {"price": "2.00"}),
                ("missing", 4, None, None, {"price": None}),
                ("extra", 9, None, {"price": "1.30"}, None),
            ],
        ),
    ],
)
def test_reconcile_against_a_snapshot(
    project: Project, target: str, text: str, differences: list[tuple[Any, ...]]
) -> None:
    path = project.write("snapshot.csv", text)
    answer = project.ingest("reconcile", target, "--snapshot", str(path), "--json")
    found = [
        (row["kind"], row["key"]["id"], row["columns"], row["found"], row["expected"])
        for row in answer.records
    ]
    assert sorted(found, key=lambda row: row[1]) == differences
    assert answer.code == bool(differences)
    assert answer.err.startswith(f"{target}: gold has ") and "the snapshot" in answer.err


@pytest.mark.parametrize(("name", "between"), [("s.csv", ","), ("s.tsv", "\t")])
def test_reconcile_reads_breaks_within_quotes_and_tabs(
    project: Project, name: str, between: str
) -> None:
    rows = (("id", "price", "more"), ("3", "2", '"a, b\nc\t""d"""'), ("4", "", "y"))
    path = project.write(name, "".join(f"{between.join(row)}\n" for row in rows))
    answer = project.ingest("reconcile", "shop_items", "--snapshot", str(path), "--json")
    assert (answer.code, len(answer.records)) == (1, 3), answer.err
    assert "1 missing, 1 extra, 1 different" in answer.err


def test_reconcile_lists_a_bounded_number_and_counts_all(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.operations.reconcile.MOST", 1)
    path = project.write("snapshot.csv", "id,price,more\n3,2,x\n4,,y\n")
    answer = project.ingest("reconcile", "shop_items", "--snapshot", str(path), "--json")
    assert (answer.code, len(answer.records)) == (1, 1)
    assert "1 missing, 1 extra, 1 different, of which 1 are listed" in answer.err


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("a.csv", "name\npen\n", 2, "snapshot: expected the key column id, got name"),
        ("none.csv", None, 2, "snapshot: [PATH_NOT_FOUND]"),
        ("b.csv", "id,price\n3,much\n", 1, "expected decimal(12,2) in the snapshot, got much"),
        ("c", "id\n3\n", 2, "snapshot: expected parquet in "),
    ],
)
def test_a_snapshot_that_cannot_be_compared(
    project: Project, name: str, text: str | None, code: int, said: str
) -> None:
    path = project.folder / name
    if text is not None:
        path.write_text(text)
    answer = project.ingest("reconcile", "shop_items", "--snapshot", str(path))
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def _gold(project: Project, target: str) -> list[dict[str, Any]]:
    return project.ingest("sql", f"SELECT * FROM gold.{target} ORDER BY id", "--json").records


def _detail(project: Project, target: str) -> dict[str, Any]:
    """What makes the table what it is, beside its rows."""
    [detail] = project.ingest("sql", f"DESCRIBE DETAIL gold.{target}", "--json").records
    schema = project.ingest("sql", f"DESCRIBE TABLE gold.{target}", "--json").records
    return {
        **{name: detail[name] for name in ("id", "properties", "tableFeatures")},
        "schema": schema,
    }


def spoilt(project: Project, target: str) -> None:
    """Change, take away and add a row of the gold table by hand."""
    for statement in (
        f"UPDATE gold.{target} SET price = 7, name = NULL WHERE id = 1 OR id = 9",
        f"DELETE FROM gold.{target} WHERE id = 3",
        f"INSERT INTO gold.{target} SELECT 77, * EXCEPT (id) FROM gold.{target} LIMIT 1",
    ):
        assert project.ingest("sql", "--write", statement).code == 0


def test_reconcile_lists_what_differs_and_rebuild_repairs_it(project: Project) -> None:
    right = {target: _gold(project, target) for target in TARGETS}
    details = {target: _detail(project, target) for target in TARGETS}
    for target in TARGETS:
        spoilt(project, target)
    answer = project.ingest("reconcile", "shop_items", "--json")
    assert answer.code == 1
    told = {"name": "pen", "price": "1.30"}
    by_kind = {record["kind"]: record for record in answer.records}
    assert len(by_kind) == len(answer.records) == 3
    assert by_kind["different"] == {
        "kind": "different",
        "key": {"id": 9},
        "columns": ["name", "price"],
        "found": {"name": None, "price": "7.00"},
        "expected": told,
    }
    assert by_kind["missing"] == {
        "kind": "missing",
        "key": {"id": 3},
        "columns": None,
        "found": None,
        "expected": {"name": "mug", "price": None, "_source_table": "shop.items"},
    }
    assert (by_kind["extra"]["key"], by_kind["extra"]["expected"]) == ({"id": 77}, None)
    assert "; 1 missing, 1 extra, 1 different" in answer.err
    for target in TARGETS:
        done: Answer = project.ingest("rebuild", target, "--json")
        assert done.code == 0, done.err
        [record] = done.records
        assert record.pop("seconds") > 0
        changes = sum(
            message["table"] == target.removeprefix("shop_") for message in [*MONDAY, *TUESDAY]
        )
        assert record == {
            "kind": "rebuilt",
            "table": target,
            "rows": len(right[target]),
            "rejected": 0,
            "events": changes,
        }
        assert _gold(project, target) == right[target]
        assert _detail(project, target) == details[target]
        assert project.ingest("reconcile", target).code == 0
    assert project.ingest("run").out.count("shop_") == 0


@pytest.mark.slow
def test_a_rebuilt_table_goes_on_from_there(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", MONDAY[:3])
    assert project.ingest("bronze").code + project.ingest("silver").code == 0
    # Nothing was applied yet: then it is.
    [merged] = project.ingest("rebuild", "shop_items", "--json").records[1:]
    assert (merged["kind"], merged["inserted"]) == ("table", 2)
    project.land("2.jsonl", TUESDAY[:4])
    assert project.ingest("bronze").code + project.ingest("silver").code == 0
    rebuilt, merged = project.ingest("rebuild", "shop_items", "--json").records
    assert (rebuilt["rows"], rebuilt["events"], merged["events"]) == (2, 3, 4)
    ids = [row["id"] for row in _gold(project, "shop_items")]
    assert ids == [3, 9]
    assert project.ingest("reconcile", "shop_items").code == 0
    # A table that someone dropped comes back whole.
    for file in sorted((tmp_path / "warehouse/gold/shop_items").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    spark.catalog.clearCache()
    answer = project.ingest("reconcile", "shop_items")
    assert answer.code == 1
    assert answer.err.startswith("there is no gold table shop_items: `ingest run` makes it or, ")
    # Nor is it begun anew by what is new, which would leave out all that it had.
    project.land("3.jsonl", [canal("items", "INSERT", {**MUG, "id": "4"}, es=T0 + 9000, id_=9)])
    said = "the table gold.shop_items is gone, which held what was applied so far; `ingest rebuild"
    for verb in ("run", "gold"):
        answer = project.ingest(verb)
        assert (answer.code, said in " ".join(answer.err.split())) == (1, True), answer.err
    [_, stood] = project.ingest("status", "--json").records
    assert (stood["parked"], stood["rows"], said in stood["error"]) == (True, 0, True)
    # A rebuild that is cut short leaves no empty table, which new changes would be applied to.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refold, "note_rewritten", lambda *_: 1 / 0)
        assert project.ingest("rebuild", "shop_items").code == 1
    answer = project.ingest("run")
    assert (answer.code, said in " ".join(answer.err.split())) == (1, True), answer.err
    assert project.ingest("rebuild", "shop_items").code == 0
    assert [row["id"] for row in _gold(project, "shop_items")] == [3, 4, 9]
    [_, stood] = project.ingest("status", "--json").records
    assert (stood["parked"], stood["rows"]) == (False, 3)
    assert project.ingest("reconcile", "shop_items").code == 0


@pytest.mark.slow
def test_31_a_rebuilt_table_of_versions_knows_what_began_none(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", f"{TABLES}    stored_as_scd_type: 2\n")
    project.land("1.jsonl", [canal("stock", "INSERT", PEN, es=T0, id_=1)])
    assert project.ingest("run").code == 0
    project.land("2.jsonl", [_update("stock", PEN, {}, es=9000, id_=9)])
    assert project.ingest("run").code + project.ingest("rebuild", "shop_stock").code == 0
    project.land("3.jsonl", [_update("stock", DEARER, {"price": "1.10"}, es=7000, id_=7)])
    assert project.ingest("run").code == 0
    query = "SELECT price, _current FROM gold.shop_stock ORDER BY _pos"
    told = project.ingest("sql", query, "--json").records
    assert [(row["price"], row["_current"]) for row in told] == [
        *(("1.10", False), ("1.20", False), ("1.10", True)),
    ]
