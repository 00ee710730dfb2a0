"""Tables of another layout are refused, and upgraded where there is a way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.platform import table_layout
from pipelines.platform.warehouse import LAYOUT_PROPERTY, Warehouse
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"


def test_another_layout_is_refused_and_upgraded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    answer = project.ingest("upgrade")
    assert (answer.code, "there are no tables yet" in answer.err) == (0, True)
    row = {"id": "1", "name": "pen", "price": "1.00"}
    project.land("0.jsonl", [canal("orders", "INSERT", row, es=1, id_=1)])
    assert project.ingest("run").code == 0
    answer = project.ingest("upgrade")
    assert (answer.code, "of layout 1, which delta-cdc-ingest" in answer.err) == (0, True)
    note = tmp_path / "warehouse" / "_checkpoints" / "layout.json"
    assert project.ingest("status").code == 0
    assert json.loads(note.read_text())["layout"] == 1

    # A newer version has been here: nothing is touched.
    note.write_text(json.dumps({"layout": 2, "version": "7.1.0"}))
    for words in (["run"], ["status"], ["upgrade"]):
        answer = project.ingest(*words)
        assert answer.code == 2
        assert "at most, which delta-cdc-ingest" in answer.err
        assert answer.err.endswith("wrote; install 7.1.0 or a newer one\n")

    # Lost, the tables say it themselves; an older one is brought on by steps, if there are any.
    note.unlink()
    monkeypatch.setattr(Warehouse, "layout", 3)
    answer = project.ingest("run")
    assert (answer.code, "and run `ingest upgrade`" in answer.err) == (2, True)
    answer = project.ingest("upgrade")
    assert answer.code == 2
    assert "expected a way from layout 1 of the tables to 2, got none: work on with" in answer.err
    done: list[int] = []
    steps = {1: lambda _: done.append(1), 2: lambda _: done.append(2)}
    monkeypatch.setattr(table_layout, "MIGRATIONS", steps)
    answer = project.ingest("upgrade")
    assert (answer.code, done) == (0, [1, 2]), answer.err
    assert "and are of layout 3 now" in answer.err
    note.unlink()
    assert project.ingest("run").code == 0
    shown = project.ingest("--json", "sql", "SHOW TBLPROPERTIES bronze.messages").records
    [held] = [row["value"] for row in shown if row["key"] == LAYOUT_PROPERTY]
    assert held.startswith("3 ")

    killed_and_again(project, note, monkeypatch)


def killed_and_again(project: Project, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse of an older layout, made by hand, whose upgrade is cut short in its second step.

    Its layout 3 has the names of sources in capitals, with a prefix in silver; layout 4 takes the
    prefix off, and layout 5 writes them as they are declared.
    """
    tables = ("silver.cdc", "bronze.messages")
    steps: list[int] = []
    kill = [True]

    def without_prefix(warehouse: Warehouse) -> None:
        steps.append(3)
        name = warehouse.name("silver", "cdc")
        warehouse.execute(f"UPDATE {name} SET source = substr(source, 3) WHERE source LIKE 'S-%'")

    def as_declared(warehouse: Warehouse) -> None:
        steps.append(4)
        for table in tables:
            name = warehouse.name(*table.split("."))
            warehouse.execute(f"UPDATE {name} SET source = lower(source)")
            if kill[0]:
                raise RuntimeError("the process was killed")

    def older(warehouse: Warehouse) -> None:
        for table, source in zip(tables, ("'S-SHOP'", "'SHOP'"), strict=True):
            name = warehouse.name(*table.split("."))
            warehouse.execute(f"UPDATE {name} SET source = {source}")

    def sources() -> list[str]:
        asked = " UNION ALL ".join(f"SELECT DISTINCT source FROM {table}" for table in tables)
        return [row["source"] for row in project.ingest("--json", "sql", asked).records]

    # By hand: what an older version wrote.
    monkeypatch.setattr(table_layout, "MIGRATIONS", {3: older})
    monkeypatch.setattr(Warehouse, "layout", 4)
    assert project.ingest("upgrade").code == 0
    note.write_text(json.dumps({"layout": 3, "version": "0.0.9"}))
    monkeypatch.setattr(table_layout, "MIGRATIONS", {3: without_prefix, 4: as_declared})
    monkeypatch.setattr(Warehouse, "layout", 5)
    for words in (["run"], ["status"]):
        answer = project.ingest(*words)
        assert answer.code == 2
        assert "got layout 3, which delta-cdc-ingest 0.0.9 wrote; let no run be at" in answer.err

    assert project.ingest("upgrade").code == 1
    assert steps == [3, 4]
    # What was whole is recorded; half a step is not, and nothing else works with it.
    assert json.loads(note.read_text())["layout"] == 4
    assert project.ingest("run").code == 2
    kill[0] = False
    answer = project.ingest("upgrade")
    assert (answer.code, "and are of layout 5 now" in answer.err) == (0, True), answer.err
    assert steps == [3, 4, 4]
    assert sources() == ["shop", "shop"]
    answer = project.ingest("upgrade")
    assert (answer.code, "nothing to do" in answer.err) == (0, True)

    # Of two upgrades at once, the second finds the work done.
    note.write_text(json.dumps({"layout": 4, "version": "0.0.9"}))

    @contextmanager
    def awaited(_: Warehouse, __: str) -> Iterator[None]:
        note.write_text(json.dumps({"layout": 5, "version": "0.1.0"}))
        yield

    monkeypatch.setattr(table_layout, "lease", awaited)
    answer = project.ingest("upgrade")
    assert (answer.code, "nothing to do" in answer.err, steps) == (0, True, [3, 4, 4]), answer.err

    # What is read anew is not taken twice, and gold goes on.
    monkeypatch.undo()
    note.write_text(json.dumps({"layout": 1, "version": "0.1.0"}))
    row = {"id": "2", "name": "ink", "price": "2.00"}
    project.land("1.jsonl", [canal("orders", "INSERT", row, es=2, id_=2)])
    assert project.ingest("run").code == 0
    shown = project.ingest("--json", "sql", "SELECT id FROM gold.shop_orders ORDER BY id").records
    assert [row["id"] for row in shown] == [1, 2]
