"""`ingest run` on Debezium in Avro, whose schemas a registry has that is asked over HTTP."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project
from tests.support.registry_server import RegistryServer, registry_server

SOURCE = """\
name: depot
format: debezium_avro
files: {path: 'landing/*.jsonl', framing: kcat}
options:
  schema_registry: ${REGISTRY}
  registry_token: ${REGISTRY_TOKEN}
"""
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
DATE = {"type": "int", "connect.name": "io.debezium.time.Date"}
COLUMNS = [("sku", "string"), ("price", ["null", DECIMAL]), ("counted", DATE)]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "sku", "type": "string"}]}
KEY_ID, VALUE_ID, WIDER_ID, LATER_ID = 1, 2, 3, 4


def fields(columns: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "type": type_} for name, type_ in columns]


def envelope(*more: tuple[str, Any]) -> dict[str, Any]:
    """The schema of a change of `depot.stock`, as Debezium's connector for MySQL registers it."""
    row = {"type": "record", "name": "Value", "fields": fields([*COLUMNS, *more])}
    texts = ("connector", "snapshot", "db", "table", "file")
    source = [*((name, "string") for name in texts), ("ts_ms", "long"), ("pos", "long")]
    inner = {"type": "record", "name": "Source", "fields": fields(source)}
    parts = [("before", ["null", row]), ("after", ["null", "Value"]), ("source", inner)]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "depot.stock",
        "fields": fields([*parts, ("op", "string"), ("ts_ms", ["null", "long"])]),
    }


SCHEMAS = {
    KEY_ID: KEY,
    VALUE_ID: envelope(),
    WIDER_ID: envelope(("bin", ["null", "string"])),
    LATER_ID: envelope(("bin", ["null", "string"]), ("note", ["null", "string"])),
}


def framed(id_: int, value: Any) -> str:
    """A datum behind its schema's id, in hexadecimal."""
    # Decimals as the bytes that Connect makes of them.
    schema = json.loads(json.dumps(SCHEMAS[id_]).replace('"logicalType"', '"was"'))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return (b"\0" + id_.to_bytes(4, "big") + stream.getvalue()).hex()


def change(pos: int, op: str, before: Any, after: Any, id_: int = VALUE_ID) -> dict[str, Any]:
    source = {"connector": "mysql", "snapshot": "false", "db": "depot", "table": "stock"}
    at = {"file": "bin.000001", "pos": pos, "ts_ms": 1_700_000_000_000 + pos}
    value = {"before": before, "after": after, "source": {**source, **at}, "op": op, "ts_ms": None}
    return {
        "topic": "depot.stock",
        "partition": 0,
        "offset": pos,
        "ts": at["ts_ms"],
        "key_hex": framed(KEY_ID, {"sku": (after or before)["sku"]}),
        "payload_hex": framed(id_, value),
    }


def row(sku: str, cents: int | None, **more: Any) -> dict[str, Any]:
    price = None if cents is None else cents.to_bytes(4, "big", signed=True)
    return {"sku": sku, "price": price, "counted": 19_700, **more}


@pytest.fixture
def server() -> Any:
    with registry_server() as running:
        for id_ in (KEY_ID, VALUE_ID, WIDER_ID):
            running.has(id_, SCHEMAS[id_])
        yield running


@pytest.mark.slow
def test_a_run_asks_the_registry(
    server: RegistryServer,
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGISTRY", server.url)
    monkeypatch.setenv("REGISTRY_TOKEN", "t0ken")
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/depot.yml", SOURCE)
    cup, pen = row("cup", -450), row("pen", None)
    project.land("1.jsonl", [change(1, "c", None, cup), change(2, "c", None, pen)])
    assert project.ingest("validate", "--connect").code == 0
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert held(project) == [("cup", "-4.50", "2023-12-09"), ("pen", None, "2023-12-09")]
    assert {asked.authorization for asked in server.asked} == {"Bearer t0ken"}

    # A new schema adds a column; of another one the registry does not know the id.
    mug = row("mug", 700, bin="A1", note="new")
    project.land(
        "2.jsonl",
        [
            change(3, "u", {**pen, "bin": None}, row("pen", 120, bin="B2"), WIDER_ID),
            change(4, "d", {**cup, "bin": None}, None, WIDER_ID),
            change(5, "c", None, mug, LATER_ID),
        ],
    )
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert held(project, "bin") == [("pen", "1.20", "2023-12-09", "B2")]
    [reject] = project.ingest("rejects", "list", "--json").records
    assert (reject["code"], reject["offset"]) == ("unknown_schema_id", 5)
    assert (
        f"expected the schema of id {LATER_ID} in {server.url}, got none (404)" in reject["error"]
    )

    # Workers remember for a while what a registry does not know; other settings ask anew.
    server.has(LATER_ID, SCHEMAS[LATER_ID])
    project.write("conf/sources/depot.yml", f"{SOURCE}  registry_timeout: 4\n")
    answer = project.ingest("rejects", "replay", "--json")
    assert (answer.code, [row["resolved"] for row in answer.records]) == (0, [1, 0]), answer.err
    rows = [("mug", "7.00", "2023-12-09", "A1", "new"), ("pen", "1.20", "2023-12-09", "B2", None)]
    assert held(project, "bin", "note") == rows
    assert project.ingest("reconcile", "depot_stock").code == 0
    said = project.ingest("status").out + project.ingest("rejects", "list").out
    assert "t0ken" not in said


def held(project: Project, *more: str) -> list[tuple[Any, ...]]:
    names = ", ".join(("sku", "price", "counted", *more))
    query = f"SELECT {names} FROM gold.depot_stock ORDER BY sku"
    return [tuple(row.values()) for row in project.ingest("sql", query, "--json").records]
