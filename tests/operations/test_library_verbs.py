"""From a configuration to tables by the library's own verbs, in Python."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest import ConfigError, load
from pipelines import Warehouse, as_of, rebuild, reconcile, run
from tests.support.project import Project, canal

T0 = 1_700_000_000_000  # 2023-11-14T22:13:20Z
pytestmark = pytest.mark.usefixtures("spark")
SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"


def sent(id_: int, name: str, *, es: int, type_: str = "INSERT") -> dict[str, object]:
    types = {"id": "int", "name": "varchar(20)"}
    old = {"name": "before"} if type_ == "UPDATE" else None
    row = {"id": str(id_), "name": name}
    return canal("item", type_, row, es=es, id_=1, types=types, old=old)


def test_from_a_configuration_to_tables(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", [sent(1, "a", es=T0 + 1_000), sent(2, "b", es=T0 + 2_000)])
    project.land("2.jsonl", [sent(1, "c", es=T0 + 3_000, type_="UPDATE"), "{"])
    config = load(tmp_path / "conf")
    warehouse = Warehouse(config, spark)
    with caplog.at_level(logging.INFO, "pipelines"):
        outcome = run(warehouse)
    assert (outcome.code, outcome.sources["shop"].messages, outcome.sources["shop"].rejects) == (
        *(0, 4),
        1,
    )
    assert "run: bronze shop: 4 messages" in caplog.messages
    capsys.readouterr()
    assert run(warehouse, stages=("gold",)).tables == {}
    assert capsys.readouterr() == ("", "")

    def rows(frame: object) -> list[tuple[int, str]]:
        return sorted((row["id"], row["name"]) for row in frame.collect())  # type: ignore[attr-defined]

    assert rows(warehouse.read("gold", "shop_item")) == [(1, "c"), (2, "b")]
    then = as_of(warehouse, "shop_item", time="2023-11-14T22:13:22Z")
    assert rows(then) == [(1, "a"), (2, "b")]
    assert reconcile(warehouse, "gold.shop_item").right
    assert rebuild(warehouse, "shop_item").rows == 2
    with pytest.raises(ConfigError, match="expected a target table, got `items`"):
        reconcile(warehouse, "items")
    with pytest.raises(ValueError, match="either time or pos"):
        as_of(warehouse, "shop_item")
