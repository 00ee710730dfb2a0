"""Two projects on one warehouse that give one source's name to different data."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/shop-*.jsonl'}\n"
PEN = {"id": "1", "name": "pen", "price": "1.10"}
CUP = {"id": "1", "name": "cup", "price": "4.00"}


@pytest.mark.slow
def test_their_messages_are_not_mixed(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (Project(tmp_path / name, capsys.readouterr) for name in ("one", "two"))
    for project, row in ((one, PEN), (two, CUP)):
        project.write("conf/ingest.yml", "warehouse: ../lake\n")
        project.write("conf/sources/shop.yml", SOURCE)
        project.land("shop-1.jsonl", [canal("items", "INSERT", row, es=1_700_000_000_000, id_=1)])
    two.write("conf/sources/till.yml", SOURCE.replace("shop", "till"))
    two.land("till-1.jsonl", [canal("sales", "INSERT", CUP, es=1_700_000_000_000, id_=1)])
    assert one.ingest("run").code == 0

    said = "expected it to be of one project, got two"
    answer = two.ingest("run", "--json")
    assert (answer.code, answer.err.count(said)) == (1, 1), answer.err
    assert "source shop failed: expected it to be" in answer.err
    errors = {row["source"]: row["error"] for row in answer.records if row["kind"] == "source"}
    assert (errors["till"], said in errors["shop"]) == (None, True)
    asked = "SELECT name FROM gold.shop_items UNION ALL SELECT name FROM gold.shop_sales"
    rows = two.ingest("sql", asked, "--json").records
    assert [row["name"] for row in rows] == ["pen", "cup"]
    for verb in (
        ("status",),
        ("plan",),
        ("redecode", "--source", "shop"),
        ("rejects", "replay", "--source", "shop"),
        ("rebuild", "shop_items"),
        ("reset", "--source", "shop", "--bronze", "--yes"),
        ("reset", "shop_items", "--yes"),
    ):
        answer = two.ingest(*verb)
        assert (answer.code, said in " ".join(answer.err.split())) == (1, True), verb
    assert one.ingest("run").code == 0
    assert one.ingest("reconcile", "shop_items").code == 0

    # Under a name of its own it has a place beside the other.
    two.write("conf/sources/shop.yml", SOURCE.replace("name: shop", "name: shop2"))
    two.write(
        "conf/tables/shop2.yml", "source: shop2\ntables: [{from: '*', target: 'two_{table}'}]\n"
    )
    assert two.ingest("run").code == 0
    rows = two.ingest("sql", "SELECT name FROM gold.two_items", "--json").records
    assert [row["name"] for row in rows] == ["cup"]
