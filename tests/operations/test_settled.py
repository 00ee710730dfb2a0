"""Gold is looked through again only where something has changed since it was found well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Answer, Project, canal

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"


def test_a_quiet_source_costs_nothing(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pipelines.gold import run

    looked: list[str] = []
    merge_source = run._merge_source

    def watched(*about: Any, **more: Any) -> list[run.Merged]:
        looked.append(about[2])
        return merge_source(*about, **more)

    monkeypatch.setattr(run, "_merge_source", watched)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)

    def again(*, looks: bool, code: int = 0) -> Answer:
        looked.clear()
        answer = project.ingest("run")
        assert (answer.code, bool(looked)) == (code, looks), answer.err
        return answer

    row = {"id": "1", "name": "pen", "price": "1.10"}
    project.land("1.jsonl", [canal("item", "INSERT", row, es=1_700_000_000_000, id_=1)])
    again(looks=True)
    again(looks=False)
    again(looks=False)
    # New messages, and another configuration.
    project.land(
        "2.jsonl", [canal("item", "INSERT", {**row, "id": "2"}, es=1_700_000_000_001, id_=2)]
    )
    again(looks=True)
    again(looks=False)
    project.write(
        "conf/tables/shop.yml",
        "source: shop\ntables: [{target: shop_item, from: [shop.item], exclude: [color]}]\n",
    )
    again(looks=True)
    again(looks=False)
    # A table that is gone is no settled one, and is named in every run.
    shutil.rmtree(tmp_path / "warehouse/gold/shop_item")
    for _ in range(2):
        assert "shop_item is parked" in again(looks=True, code=1).err
