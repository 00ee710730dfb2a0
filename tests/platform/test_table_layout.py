"""Tables of another layout are refused, and upgraded where there is a way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.platform import table_layout
from pipelines.platform.warehouse import LAYOUT_PROPERTY
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("frugal")
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
    monkeypatch.setattr(table_layout, "LAYOUT", 3)
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
