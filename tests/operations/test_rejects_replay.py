"""`ingest rejects replay`: what was set aside comes in where today's configuration lets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.decode.batches import decode
from pipelines.gold import retyping
from pipelines.gold.refold import overwrite_rows
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

T0 = 1_700_000_000_000
SOURCE = (
    "name: shop\nformat: {format}\norder: source\nepoch: {epoch}\n"
    "files: {{path: 'landing/*.jsonl', framing: kcat}}\n"
)
DATA = "SELECT * EXCEPT (_event_time, _source, _source_table) FROM gold.{} ORDER BY id"


def land(project: Project, name: str, *sent: Any, first: int | None = None) -> None:
    """Messages of one partition, offsets going on from `name`, or `first`."""
    first = 100 * int(name) if first is None else first
    lines = [
        {
            **{"topic": "shop", "partition": 0, "offset": first + n, "ts": T0},
            "key": None,
            "payload": message if isinstance(message, str) else json.dumps(message),
        }
        for n, message in enumerate(sent)
    ]
    project.land(f"{name}.jsonl", lines)


def item(id_: int, name: str, es: int, keys: list[str] | None = None, table: str = "item") -> Any:
    row = {"id": str(id_), "name": name}
    types = {"id": "int", "name": "varchar(20)"}
    return canal(table, "INSERT", row, es=T0 + es, id_=es, types=types, keys=keys or ["id"])


def open_(project: Project) -> list[tuple[Any, ...]]:
    listed = project.ingest("rejects", "list", "--json").records
    return [(r["stage"], r["offset"], r["code"], r["status"]) for r in listed]


def replay(project: Project, *options: str) -> list[tuple[Any, ...]]:
    answer = project.ingest("rejects", "replay", "--json", *options)
    assert answer.code == 0, answer.err
    return [(r["stage"], r["tried"], r["resolved"], r["open"]) for r in answer.records]


def _noting(file: Path) -> Any:
    """`decode`, which notes how many messages it is given."""

    def decoding(readings: Any) -> Any:
        run = decode(readings)

        def noting(batches: Any) -> Any:
            for batch in batches:
                with file.open("a") as notes:
                    notes.write(f"{batch.num_rows}\n")
                yield from run(iter([batch]))

        return noting

    return decoding


def test_messages_are_decoded_again(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under the wrong format everything is set aside; under the right one it comes in at its own
    position: below what came since, and below a newer epoch (48). Each is decoded once: a second
    time could end otherwise."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="oms_default", epoch=0))
    land(project, "1", item(1, "first", 1), item(2, "two", 9000), '{"broken', item(3, "three", 3))
    assert project.ingest("run").code == 1
    assert [reject[0] for reject in open_(project)] == ["decode"] * 4
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=1))
    land(project, "2", item(2, "newer", 5), item(1, "second", 6))
    assert project.ingest("run").code == 0
    assert replay(project, "--code", "no_key") == [("decode", 0, 0, 0), ("gold", 0, 0, 0)]
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.operations.replay.decode", _noting(tmp_path / "decoded"))
        assert replay(project) == [("decode", 4, 3, 1), ("gold", 0, 0, 0)]
    assert sum(map(int, (tmp_path / "decoded").read_text().split())) == 4
    assert not list((tmp_path / "warehouse/silver").glob("_replay*"))
    expected = [
        {"_pos": [1, 1, T0 + 6, 6, 0, 0, 0, 0, 201, 0, 1], "id": 1, "name": "second"},
        {"_pos": [1, 1, T0 + 5, 5, 0, 0, 0, 0, 200, 0, 1], "id": 2, "name": "newer"},
        {"_pos": [0, 1, T0 + 3, 3, 0, 0, 0, 0, 103, 0, 1], "id": 3, "name": "three"},
    ]

    def rows() -> list[dict[str, Any]]:
        found = project.ingest("sql", DATA.format("shop_item"), "--json").records
        for row in found:
            row["_pos"][7] = 0
        return sorted(found, key=lambda row: row["id"])

    assert rows() == expected
    assert len(project.ingest("history", "shop_item", "--json").records) == 5
    count = "SELECT count(*) AS n FROM silver.cdc WHERE kind = 'change'"
    assert project.ingest("sql", count, "--json").records == [{"n": 5}]
    assert [r[3] for r in open_(project)] == ["resolved", "resolved", "open", "resolved"]
    # Once more: nothing comes in twice, what fails again is counted.
    assert replay(project) == [("decode", 1, 0, 1), ("gold", 0, 0, 0)]
    assert rows() == expected
    assert project.ingest("sql", count, "--json").records == [{"n": 5}]
    (broken,) = [
        r for r in project.ingest("rejects", "list", "--json").records if r["status"] == "open"
    ]
    assert (broken["code"], broken["value"]) == ("bad_json", "eyJicm9rZW4=")
    shown = project.ingest("rejects", "show", broken["id"], "--json").records[0]
    assert shown["attempts"] == 2
    spark.catalog.clearCache()


class Killed(BaseException):
    """Ends the command as a kill would: nobody handles it."""


@pytest.mark.slow
def test_a_replay_that_was_killed_is_done_once(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the append to silver, before anything is noted of it; after the merge, before its."""
    from pipelines.operations import replay as module

    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="oms_default", epoch=0))
    land(project, "1", item(1, "first", 1), item(2, "two", 2))
    assert project.ingest("run").code == 1
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    for name in ("_note", "merge_tables"):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(module, name, die)
            project.ingest("rejects", "replay")
    replay(project)
    assert project.ingest("run").code == 0
    assert [r[3] for r in open_(project)] == ["resolved", "resolved"]
    rows = project.ingest("sql", "SELECT id, name FROM gold.shop_item", "--json").records
    assert sorted(rows, key=str) == [{"id": 1, "name": "first"}, {"id": 2, "name": "two"}]
    count = "SELECT count(*) AS n FROM silver.cdc WHERE kind = 'change'"
    assert project.ingest("sql", count, "--json").records == [{"n": 2}]
    spark.catalog.clearCache()


@pytest.mark.slow
def test_a_new_epoch_repeats_the_places_of_rejects(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that was made anew begins at its first offset: what was set aside at one in the
    epoch before is neither done by what stands there now, nor the same reject."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))
    project.write(
        "conf/tables/shop.yml",
        "source: shop\ntables: [{from: '*', columns: {name: 'decimal(4,2)'}}]\n",
    )
    land(project, "1", item(1, "1.25", 1), '{"broken', item(2, "few", 2), first=0)
    assert project.ingest("run").code == 0
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=1))
    land(project, "2", item(3, "7", 1), item(1, "2.50", 2), item(4, "many", 3), first=0)
    assert project.ingest("run").code == 0
    open_now = [
        ("decode", 1, "bad_json", "open"),
        ("gold", 2, "type_mismatch", "open"),
        ("gold", 2, "type_mismatch", "open"),
    ]
    assert open_(project) == open_now
    assert len({r["id"] for r in project.ingest("rejects", "list", "--json").records}) == 3
    assert replay(project) == [("decode", 1, 0, 1), ("gold", 2, 0, 2)]
    assert open_(project) == open_now
    rows = project.ingest("sql", "SELECT id, name FROM gold.shop_item ORDER BY id", "--json")
    assert rows.records == [{"id": 1, "name": "2.50"}, {"id": 3, "name": "7.00"}]
    assert project.ingest("reconcile", "shop_item").code == 0
    [lag] = [r["lag"] for r in project.ingest("status", "--json").records if r["kind"] == "source"]
    assert lag == 0
    spark.catalog.clearCache()


@pytest.mark.slow
def test_a_reject_that_silver_has_twice_is_one(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A silver that lost its checkpoint decodes what bronze has again."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))
    land(project, "1", item(1, "pen", 1), "{broken", "[broken")
    assert project.ingest("run").code == 0
    assert replay(project, "--source", "shop")[0] == ("decode", 2, 0, 2)
    shutil.rmtree(tmp_path / "warehouse/_checkpoints/silver/shop")
    assert project.ingest("run").code == 0
    [source, _] = project.ingest("status", "--json").records
    assert (source["rejects"], source["decoded_rows"] > 0) == (2, True)
    listed = project.ingest("rejects", "list", "--json").records
    assert [(r["offset"], r["status"]) for r in listed] == [(101, "open"), (102, "open")]
    first, second = (r["id"] for r in listed)
    assert project.ingest("rejects", "show", first[:8]).code == 0
    assert project.ingest("rejects", "dismiss", first[:8], "--why", "x").code == 0
    assert project.ingest("rejects", "dismiss", "--source", "shop", "--why", "x").code == 0
    kept = project.ingest("sql", "SELECT id, status FROM gold._rejects ORDER BY offset", "--json")
    assert kept.records == [{"id": id_, "status": "dismissed"} for id_ in (first, second)]
    [source, _] = project.ingest("status", "--json").records
    assert source["rejects"] == 0


@pytest.mark.slow
def test_events_are_typed_again(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that did not fit a declared type; few come to the driver at a time, by their bytes."""
    parts: list[int] = []

    replay_part = retyping._replay

    def noting(ledger: Any, part: Any, **how: bool) -> Any:
        if how["attempt"]:
            parts.append(len(part))
        return replay_part(ledger, part, **how)

    monkeypatch.setattr(retyping, "_replay", noting)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))
    tables = "source: shop\ntables:\n  - from: '*'\n"
    project.write(
        "conf/tables/shop.yml", tables + "  - {from: shop.item, columns: {name: 'decimal(4,2)'}}\n"
    )
    land(
        project,
        "1",
        item(1, "1.25", 1),
        item(2, "1234.5", 2),
        item(1, "few", 3),
        item(1, "7", 4, table="note"),
    )
    assert project.ingest("run").code == 0
    assert open_(project) == [
        ("gold", 101, "type_mismatch", "open"),
        ("gold", 102, "type_mismatch", "open"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.apply.bounds.BYTES", 1)
        assert replay(project) == [("decode", 0, 0, 0), ("gold", 2, 0, 2)]
    assert parts == [1, 1]
    project.write(
        "conf/tables/shop.yml", tables + "  - {from: shop.item, columns: {name: 'decimal(9,2)'}}\n"
    )
    assert replay(project, "--code", "null_key") == [("decode", 0, 0, 0), ("gold", 0, 0, 0)]
    assert replay(project) == [("decode", 0, 0, 0), ("gold", 2, 1, 1)]
    assert parts == [1, 1, 2]
    found = project.ingest("sql", "SELECT id, name FROM gold.shop_item", "--json").records
    assert sorted(found, key=str) == [{"id": 1, "name": "1.25"}, {"id": 2, "name": "1234.50"}]
    # A plain run changes nothing of it. A column that is string is asked for as a number: it is not
    # one until somebody decides.
    asked = tables + "  - {from: shop.note, columns: {name: int}}\n"
    project.write("conf/tables/shop.yml", asked)
    land(project, "2", item(2, "8", 5, table="note"))
    assert project.ingest("run").code == 0
    assert [r[3] for r in open_(project)] == ["resolved", "open"]
    (entry,) = [
        entry
        for entry in project.ingest("ddl", "list", "--json").records
        if entry["target"] == "shop_note"
    ]
    assert (entry["kind"], entry["class"], entry["status"]) == (
        *("modify_column", "destructive"),
        "pending",
    )
    assert project.ingest("ddl", "approve", entry["id"]).code == 0
    found = project.ingest("sql", "SELECT id, name FROM gold.shop_note", "--json").records
    assert sorted(found, key=str) == [{"id": 1, "name": 7}, {"id": 2, "name": 8}]
    spark.catalog.clearCache()


@pytest.mark.slow
def test_a_partial_image_that_fits_at_last_waits_for_its_base(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    source = SOURCE.format(format="debezium", epoch=0) + "keys: {shop.part: [id]}\n"
    project.write("conf/sources/shop.yml", source)
    tables = "source: shop\ntables: [{{from: '*', columns: {{id: int, a: '{}', b: int}}}}]\n"
    project.write("conf/tables/shop.yml", tables.format("decimal(4,2)"))

    def part(op: str, pos: int, **after: Any) -> Any:
        place = {"file": "bin.000001", "pos": pos, "row": 0, "ts_ms": T0 + pos}
        about = {"connector": "mysql", "db": "shop", "table": "part", **place}
        return {"op": op, "before": None, "after": after, "source": about}

    unsent = "__debezium_unavailable_value"
    land(project, "1", part("c", 1, id=9, a="9", b=9), part("u", 5, id=1, a="1234.5", b=unsent))
    assert project.ingest("run").code == 0
    project.write("conf/tables/shop.yml", tables.format("decimal(9,2)"))
    replay(project)
    assert open_(project) == [("gold", 101, "no_base_image", "open")]
    land(project, "2", part("c", 3, id=1, a="3", b=7))
    assert project.ingest("run").code == 0
    found = project.ingest("sql", DATA.format("shop_part"), "--json").records
    assert [(r["id"], r["a"], r["b"]) for r in found] == [(1, "1234.50", 7), (9, "9.00", 9)]
    assert open_(project) == [("gold", 101, "no_base_image", "resolved")]
    spark.catalog.clearCache()


@pytest.mark.slow
def test_a_target_of_images_is_made_anew_once(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many parts its rejects come in."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))
    kept = (
        "source: shop\ntables: [{{from: '*', stored_as_scd_type: append, columns: {{name: {}}}}}]\n"
    )
    project.write("conf/tables/shop.yml", kept.format("'decimal(4,2)'"))
    land(project, "1", item(1, "1.25", 1), *(item(n, "1234.5", n) for n in range(2, 6)))
    assert project.ingest("run").code == 0
    assert len(open_(project)) == 4
    made: list[str] = []

    def noting(reconstruction: Any, rows: str) -> None:
        made.append(reconstruction.target)
        overwrite_rows(reconstruction, rows)

    monkeypatch.setattr(retyping, "overwrite_rows", noting)
    monkeypatch.setattr(retyping, "MOST", 2)
    project.write("conf/tables/shop.yml", kept.format("'decimal(9,2)'"))
    replay(project)
    assert [row[3] for row in open_(project)] == ["resolved"] * 4
    # Once as its columns grow, once for what was asked for.
    assert made == ["shop_item"] * 2
    found = project.ingest("sql", "SELECT id FROM gold.shop_item ORDER BY id", "--json").records
    assert [row["id"] for row in found] == [1, 2, 3, 4, 5]
    assert project.ingest("reconcile", "shop_item").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rejects", "replay", "--source", "shp"], "nearest: shop"),
        (["rejects", "replay", "--code", "no_kye"], "nearest: no_key"),
    ],
)
def test_unknown_words_are_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(format="canal", epoch=0))
    answer = project.ingest(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
