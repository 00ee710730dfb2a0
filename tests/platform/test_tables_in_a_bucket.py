"""Tables in a bucket, in a catalog whose schemas lie there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.project import Project, canal
from tests.support.s3_server import client, commands, s3_server, settings

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
LAYERS = ("bronze", "silver", "gold")
SCHEMAS = {layer: f"lake_{layer}" for layer in (*LAYERS, "history")}
STORE = "io.delta.storage.S3SingleDriverLogStore"


@pytest.mark.slow
def test_every_verb_works_on_tables_of_a_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write(
        "conf/ingest.yml",
        f"catalog: spark_catalog\ncheckpoints: checkpoints\nschemas: {json.dumps(SCHEMAS)}\n",
    )
    row = {"id": "1", "name": "pen", "price": "1.10"}
    sent = [
        canal("item", "INSERT", row, es=1_700_000_000_000, id_=1),
        canal("item", "INSERT", {**row, "id": "2"}, es=1_700_000_001_000, id_=2),
        canal("item", "DELETE", row, es=1_700_000_002_000, id_=3),
    ]
    project.land("1.jsonl", sent)
    query = ("sql", "SELECT id, name FROM lake_gold.shop_item", "--json")
    told = "history", "shop_item", "--json"
    with s3_server(tmp_path) as address:
        store = client(address)
        store.create_bucket(Bucket="lake")
        given = {**settings(address), "spark.delta.logStore.s3a.impl": STORE}
        defaults = "".join(f"{name} {value}\n" for name, value in given.items())
        project.write("spark-defaults.conf", defaults)
        done = commands(
            project,
            ("run",),
            query,
            ("run",),
            ("reconcile", "shop_item"),
            ("rebuild", "shop_item", "--yes"),
            ("maintain",),
            query,
            told,
            statements=[
                f"CREATE SCHEMA {SCHEMAS[layer]} LOCATION 's3a://lake/{layer}'" for layer in LAYERS
            ],
        )
        listed = store.list_objects_v2(Bucket="lake", Prefix="gold/shop_item/_delta_log/")
    assert [code for code, _, _ in done] == [0] * len(done), "".join(err for _, _, err in done)
    outputs = [[json.loads(line) for line in done[place][1].splitlines()] for place in (1, 6, 7)]
    assert outputs[:2] == [[{"id": 2, "name": "pen"}]] * 2
    assert [change["op"] for change in outputs[2]] == ["insert", "insert", "delete"]
    assert "no difference" in done[3][2]
    assert listed["KeyCount"] > 1
    assert not (tmp_path / "warehouse" / "gold").exists()
