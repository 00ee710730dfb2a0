"""What a target tells of itself can be read again, whatever columns and tables are called."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.config.modes import TargetContract
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Horizon
from pipelines.targets.table import (
    contract_of,
    create,
    horizons_of,
    keep_horizons,
    replace_table,
)


def test_spark_hides_no_name_that_reads_like_a_secret(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "conf/sources").mkdir(parents=True)
    (tmp_path / "conf/sources/shop.yml").write_text("name: shop\nfiles: {path: x}\n")
    (tmp_path / "conf/ingest.yml").write_text("warehouse: warehouse\n")
    warehouse = Warehouse(load(tmp_path / "conf", environ={}), spark)
    made = TargetContract(
        "scd1", ("id", "secret_part"), ("token",), masks=("password hash",), shard="secret_part"
    )
    columns = {"id": "int", "token": "bigint", "password": "string", "secret_part": "string"}
    create(warehouse, "items", columns, contract=made, soft=False)
    assert contract_of(warehouse, "items") == made
    horizons = {"shop:auth.access_tokens": (Horizon((0, 1, 5), 3, None),)}
    keep_horizons(warehouse, "items", horizons)
    assert horizons_of(warehouse, "items") == horizons
    theirs = {"owner.token": "of the team", "delta.enableDeletionVectors": "true"}
    name = warehouse.name("gold", "items")
    set_them = ", ".join(f"'{key}' = '{value}'" for key, value in theirs.items())
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({set_them})")
    replace_table(warehouse, "items", warehouse.read("gold", "items"), contract=made)
    assert contract_of(warehouse, "items") == made
    assert horizons_of(warehouse, "items") == horizons
    [told] = spark.sql(f"DESCRIBE DETAIL {name}").select("properties").collect()
    assert theirs.items() <= told[0].items()
