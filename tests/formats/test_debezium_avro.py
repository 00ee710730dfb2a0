"""Debezium in Avro: what its golden folders cannot show."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.wire.contract import Message
from tests.support.avro_encoders import written
from tests.support.connect_avro import SchemaFiles, completed
from tests.support.messages import folders
from tests.support.registry_server import registry_server
from tests.support.silver_rows import as_json, golden_rows, messages, source_of

APART = {"format", "value_hash", "value"}
"""Columns that tell of the encoding itself."""
PARTIAL = "images_partial"
"""Golden folder of rows without some columns, which Avro cannot leave out."""


def reader_of(**given: Any) -> SourceDecoder:
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = {"name": "s", "kafka": kafka, "format": "debezium_avro", **given}
    return SourceDecoder(decode_spec(Source.model_validate(source)))


def as_avro(files: SchemaFiles, message: Message) -> Message | None:
    """A message of JSON with schema, and its key, in Avro; None where it has no schema."""
    try:
        value = json.loads(message.value or b"null")
        framed = files.framed(completed(value)) if value["schema"] is not None else None
    except (ValueError, KeyError, TypeError):
        return None
    key = message.key
    try:
        told = json.loads(key or b"null")
        key = files.framed(told) if told["schema"] else key
    except (ValueError, KeyError, TypeError):
        pass
    return message._replace(value=framed, key=key) if framed is not None else None


FOLDERS = [folder for folder in folders("debezium") if folder.name != PARTIAL]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_avro_and_json_give_the_same_rows(folder: Path, tmp_path: Path) -> None:
    source, files = source_of(folder), SchemaFiles(tmp_path)
    options = {**source.options, "schema_folder": str(tmp_path)}
    avro = source.model_copy(update={"format": "debezium_avro", "options": options})
    readers = SourceDecoder(decode_spec(source)), SourceDecoder(decode_spec(avro))
    for message in messages(folder):
        encoded = as_avro(files, message)
        if encoded is None:
            continue
        sent, found = (
            [{k: v for k, v in as_json(row).items() if k not in APART} for row in rows]
            for rows in (
                readers[0].rows(message, source.epoch),
                readers[1].rows(encoded, source.epoch),
            )
        )
        assert found == sent


def test_enough_of_the_golden_messages_have_schemas(tmp_path: Path) -> None:
    files = SchemaFiles(tmp_path)
    encoded = [as_avro(files, message) for folder in FOLDERS for message in messages(folder)]
    assert sum(message is not None for message in encoded) > 20


def test_a_key_that_ends_too_soon_is_no_change_without_a_key(tmp_path: Path) -> None:
    """Of a delete whose row before was not sent, the key alone says which row it was."""
    files = SchemaFiles(tmp_path)
    [folder] = [folder for folder in FOLDERS if folder.name == "images_postgresql"]
    [_, _, _, sent, *_] = messages(folder)
    whole = as_avro(files, sent)
    assert whole is not None and whole.key is not None
    reader = reader_of(options={"schema_folder": str(tmp_path)})
    found = [
        (row["op"], row["before"], row["key"], row["error_code"])
        for key in (whole.key, whole.key[:-1])
        for row in map(as_json, reader.rows(whole._replace(key=key)))
        if row["kind"] != "schema"
    ]
    assert found == [("delete", None, {"id": "2"}, None), (None, None, None, "bad_avro")]


def sample_rows(shared: Path, stem: str, folder: Path) -> list[dict[str, Any]]:
    """The silver rows of a peer's messages, each with what is expected of it as `expect`."""
    base = shared / "samples" / "peers" / "debezium-avro"
    for id_, schema in json.loads((base / f"{stem}.schemas.json").read_text()).items():
        (folder / f"{id_}.avsc").write_text(json.dumps(schema))
    reader = reader_of(options={"schema_folder": str(folder)})
    found = []
    for offset, line in enumerate((base / f"{stem}.jsonl").read_text().splitlines()):
        sent = json.loads(line)
        value = bytes.fromhex(sent.get("value_hex") or "")
        key = bytes.fromhex(sent.get("key_hex") or "")
        rows = [as_json(row) for row in reader.rows(Message(value, key, offset=offset))]
        found.append({**rows[-1], "expect": sent["expect"]})
    return found


def told(image: dict[str, Any] | None) -> dict[str, str | None] | None:
    """An image as the peer shows it, in canonical text."""
    if image is None:
        return None
    return {name: None if value is None else str(value) for name, value in image.items()}


def test_mysql_of_a_peer(shared: Path, tmp_path: Path) -> None:
    rows = sample_rows(shared, "flink-mysql-products", tmp_path)
    assert len(rows) == 16
    for row in rows:
        payload = row["expect"]["payload_json"]
        source = payload["source"]
        assert (row["before"], row["after"]) == (told(payload["before"]), told(payload["after"]))
        assert (row["op_raw"], row["table"]) == (payload["op"], source["table"])
        number = int(source["file"].rpartition(".")[2])
        assert row["pos"][2:5] == [number, source["pos"], source["row"]]


def test_postgresql_of_a_peer(shared: Path, tmp_path: Path) -> None:
    rows = sample_rows(shared, "risingwave-orders-compact", tmp_path)
    assert [row["op"] for row in rows] == ["snapshot", "snapshot", "snapshot", "update", "other"]
    for row in rows[:-1]:
        expect = row["expect"]
        assert row["key"] == told(expect["key"])
        assert (row["before"], row["after"]) == (told(expect["before"]), told(expect["after"]))
        assert (row["op"], row["schema"]) == (expect["op"], expect["schema"])
        assert row["pos"][3] == expect["lsn"]


def ops() -> list[tuple[Message, list[dict[str, Any]]]]:
    """The messages of a golden folder, each with its rows but for the path of its schema."""
    [folder] = [folder for folder in folders("debezium_avro") if folder.name == "ops"]
    rows = golden_rows(folder)
    return [
        (message, [row for row in rows if row["offset"] == message.offset])
        for message in messages(folder)
    ]


def test_schemas_from_a_registry() -> None:
    schemas = Path(__file__).parent / "debezium_avro" / "schemas"
    with registry_server() as server:
        for file in schemas.glob("1*.avsc"):
            server.answers[f"/schemas/ids/{file.stem}"] = (
                200,
                json.dumps({"schema": file.read_text()}).encode(),
            )
        reader = reader_of(options={"schema_registry": server.url, "registry_token": "t"})
        for message, rows in ops():
            found = [as_json(row) | {"source": "golden"} for row in reader.rows(message)]
            assert found == rows
        assert {asked.authorization for asked in server.asked} == {"Bearer t"}
        assert len(server.asked) == 2  # of keys and of values


def test_a_message_is_decoded_again_once_the_registry_answers() -> None:
    message = ops()[0][0]
    with registry_server() as server:
        url = server.url
        down = reader_of(options={"schema_registry": url})
        server.answers = {}
        assert [as_json(row)["error_code"] for row in down.rows(message)] == ["unknown_schema_id"]
        for data in {message.value, message.key}:
            assert data is not None
            id_ = int.from_bytes(data[1:5], "big")
            file = Path(__file__).parent / f"debezium_avro/schemas/{id_}.avsc"
            server.has(id_, json.loads(file.read_text()))
        again = reader_of(options={"schema_registry": url})
        assert [as_json(row)["kind"] for row in again.rows(message)] == ["schema", "change"]


def test_a_schema_brings_no_code(tmp_path: Path) -> None:
    """Names of a schema are names, whatever they spell."""
    evil = "x'); __import__('os').abort() #\n\"\"\"{v}\\"
    column = {"name": evil, "type": ["null", "string"]}
    value = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}, column]}
    source = {
        "type": "record",
        "name": "S",
        "fields": [{"name": evil, "type": "string"}, {"name": "table", "type": "string"}],
    }
    fields = [
        {"name": "op", "type": "string"},
        {"name": "after", "type": value},
        {"name": "source", "type": source},
        {"name": evil, "type": "int"},
    ]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    (tmp_path / "1.avsc").write_text(json.dumps(schema))
    reader = reader_of(options={"schema_folder": str(tmp_path)}, order="arrival")
    data = b"\0\0\0\0\1" + b"\x02c" + b"\x02\x02\x02y" + b"\x02z\x02t" + b"\x0e"
    row = as_json(reader.rows(Message(data, timestamp=1))[-1])
    assert (row["after"], row["table"]) == ({"id": "1", evil: "y"}, "t")


def test_columns_with_the_words_of_other_languages(tmp_path: Path) -> None:
    """`properties` is a word of JSON Schema, and a name that columns have; what stands beside a
    column may be of any kind."""
    columns = [
        {"name": "properties", "type": ["null", "string"]},
        {"name": "id", "type": {"type": "int", "connect.type": ["int8"]}},
    ]
    value = {"type": "record", "name": "V", "fields": columns}
    source = {"type": "record", "name": "S", "fields": [{"name": "table", "type": "string"}]}
    fields = [
        {"name": "op", "type": "string"},
        {"name": "after", "type": value},
        {"name": "source", "type": source},
    ]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    (tmp_path / "1.avsc").write_text(json.dumps(schema))
    reader = reader_of(options={"schema_folder": str(tmp_path)}, order="arrival")
    row = as_json(reader.rows(Message(b"\0\0\0\0\1\x02c\x02\x02y\x02\x02t", timestamp=1))[-1])
    assert (row["after"], row["table"]) == ({"properties": "y", "id": "1"}, "t")


def test_a_schema_of_a_wide_table(tmp_path: Path) -> None:
    fields = [{"type": "int64", "optional": True, "field": f"c{number}"} for number in range(3_000)]
    image = {"type": "struct", "optional": True, "name": "t.Value", "fields": fields}
    schema = {
        "type": "struct",
        "name": "t.Envelope",
        "fields": [
            {**image, "field": "before"},
            {**image, "field": "after"},
            {"type": "struct", "field": "source", "name": "S", "fields": []},
            {"type": "string", "field": "op"},
        ],
    }
    row = {f"c{number}": number for number in range(3_000)}
    source = {"table": "t", "file": "b.1", "pos": 4}
    payload = {"before": None, "after": row, "source": source, "op": "c"}
    value = SchemaFiles(tmp_path).framed(completed({"schema": schema, "payload": payload}))
    reader = reader_of(options={"schema_folder": str(tmp_path)})
    found = as_json(reader.rows(Message(value))[-1])
    assert found["after"] == {name: str(number) for name, number in row.items()}


def test_deep_data_ends_where_the_stack_does(tmp_path: Path) -> None:
    """Whatever thread decodes it, and however deep it already stands."""
    schema = {"type": "record", "name": "D", "fields": [{"name": "n", "type": ["null", "D"]}]}
    (tmp_path / "1.avsc").write_text(json.dumps(schema))
    reader = reader_of(options={"schema_folder": str(tmp_path)})
    message = Message(b"\0\0\0\0\1" + b"\2" * 10**6 + b"\0")
    found: list[str] = []

    def read() -> None:
        found.append(as_json(reader.rows(message)[0])["error_code"])

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found == ["bad_avro"]


@pytest.mark.parametrize("depth", [100, 5_000, 100_000])
@pytest.mark.parametrize("around", ['{"type":"array","items":%s}', '["null",%s]'])
def test_a_schema_deeper_than_the_stack_is_refused(tmp_path: Path, depth: int, around: str) -> None:
    begin, end = around.split("%s")
    text = begin * depth + '"int"' + end * depth
    (tmp_path / "1.avsc").write_text(text)
    reader = reader_of(options={"schema_folder": str(tmp_path)})
    row = as_json(reader.rows(Message(b"\0\0\0\0\1\0"))[0])
    assert row["error_code"] == ("bad_shape" if depth == 100 else "bad_avro")
    assert len(row["error"]) < 1_000


@pytest.mark.parametrize(
    ("connector", "cell", "code"),
    [
        ("postgresql", {"value": "int32", "set": "boolean"}, "unsupported"),
        ("scylla", {"value": "int32"}, "unsupported"),
        ("postgresql", {"value": "int32", "scale": "int32"}, None),
    ],
)
def test_columns_that_a_connector_wraps(
    connector: str, cell: dict[str, str], code: str | None, tmp_path: Path
) -> None:
    """YugabyteDB's and ScyllaDB's, of which a null is no NULL."""
    within = [{"field": name, "type": kind, "optional": True} for name, kind in cell.items()]
    column = {"type": "struct", "name": "Cell", "field": "a", "optional": True, "fields": within}
    row = {"type": "struct", "name": "Value", "field": "after", "optional": True}
    texts = [{"type": "string", "field": name} for name in ("connector", "db", "table")]
    fields = [
        {**row, "fields": [column]},
        {"type": "struct", "name": "Source", "field": "source", "fields": texts},
        {"type": "string", "field": "op"},
    ]
    schema = {"type": "struct", "name": "s.t.Envelope", "fields": fields}
    source = {"connector": connector, "db": "d", "table": "t"}
    values = {name: kind == "boolean" or 1 for name, kind in cell.items()}
    sent = {"op": "c", "after": {"a": values}, "source": source}
    framed = SchemaFiles(tmp_path).framed({"schema": schema, "payload": sent})
    reader = reader_of(order="arrival", options={"schema_folder": str(tmp_path)})
    assert as_json(reader.rows(Message(framed))[-1])["error_code"] == code


def test_rows_of_ticdcs_avro(tmp_path: Path) -> None:
    """Rows alone, with what its extension adds, and empty messages for deletes."""
    columns = {"id": "int32", "_tidb_op": "string", "_tidb_commit_ts": "int64"}
    columns["_tidb_commit_physical_time"] = "int64"
    fields = [{"type": kind, "field": name} for name, kind in columns.items()]
    files = SchemaFiles(tmp_path)
    schema = {"type": "struct", "name": "default.shop.orders", "fields": fields}
    values = (1, "u", 425102843885568001, 1621588800000)
    value = files.framed({"schema": schema, "payload": dict(zip(columns, values, strict=True))})
    key = files.framed({"schema": {**schema, "fields": fields[:1]}, "payload": {"id": 1}})
    folder = {"schema_folder": str(tmp_path)}
    refused = as_json(reader_of(options=folder).rows(Message(value, key))[-1])
    assert "prefix: _tidb_" in refused["error"]
    told = {**folder, "flattened": True, "prefix": "_tidb_", "tombstone": "delete"}
    reader = reader_of(order="arrival", options=told)
    names = ("op", "db", "table", "key", "after", "event_time")
    for data, wanted in (
        (value, ("update", "shop", "orders", {"id": "1"}, {"id": "1"}, "2021-05-21T09:20:00Z")),
        (None, ("delete", "shop", "orders", {"id": "1"}, None, None)),
    ):
        row = as_json(reader.rows(Message(data, key, topic="cdc.shop.orders"))[-1])
        assert tuple(row[name] for name in names) == wanted


def test_columns_of_ticdcs_debezium_avro(tmp_path: Path) -> None:
    """Each field names its column, where Avro's name is another, and TiDB's type.

    https://github.com/pingcap/ticdc, pkg/sink/codec/debezium/avro.go (protocol=debezium-avro).
    """

    def column(own: str, type_: Any, tidb: str) -> dict[str, Any]:
        name = own.replace("-", "_")
        return {"name": name, "type": type_, "connect.field": own, "tidb_type": tidb}

    key = [column("row-id", "int", "int")]
    fields = [
        *key,
        column("pic", ["null", "string"], "blob"),
        column("total-big", ["null", "string"], "bigint unsigned"),
    ]
    row = {"type": "record", "name": "crates", "namespace": "depot.wms", "fields": fields}
    source = [("connector", "string"), ("db", "string"), ("table", "string"), ("commit_ts", "long")]
    names = [{"name": name, "type": type_} for name, type_ in source]
    envelope = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "depot.wms.crates"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": names}},
        {"name": "op", "type": "string"},
    ]
    schemas = [
        {"type": "record", "name": "cratesKey", "fields": key},
        {"type": "record", "name": "cratesEnvelope", "fields": envelope},
    ]
    after = {"row_id": 1, "pic": "/9j/", "total_big": "18446744073709551615"}
    place = {"connector": "TiCDC", "db": "wms", "table": "crates", "commit_ts": 45 * 10**16}
    sent = [{"row_id": 1}, {"before": None, "after": after, "source": place, "op": "c"}]
    framed = []
    for id_, (schema, value) in enumerate(zip(schemas, sent, strict=True), 1):
        (tmp_path / f"{id_}.avsc").write_text(json.dumps(schema))
        framed.append(b"\0" + id_.to_bytes(4, "big") + written(schema, value))
    reader = reader_of(options={"schema_folder": str(tmp_path)})
    made, change = map(as_json, reader.rows(Message(framed[1], framed[0])))
    assert change["key"] == {"row-id": "1"}
    wanted = {"row-id": "1", "pic": "/9j/", "total-big": "18446744073709551615"}
    assert change["after"] == wanted
    assert [column["type"] for column in made["columns"]] == ["int", "binary", "decimal(20,0)"]


@pytest.mark.parametrize("flattened", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "op"),
    [
        (None, {"id": 1, "n": "rye"}, "insert"),
        ({"id": 1, "n": "rye"}, {"id": 1, "n": None}, "update"),
        ({"id": 1, "n": "rye"}, None, "delete"),
    ],
)
def test_an_envelope_of_images_alone(
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    op: str,
    *,
    flattened: bool,
    tmp_path: Path,
) -> None:
    """Materialize's sinks write it, of which Avro is the usual format."""
    columns = [{"type": "int64", "field": "id"}, {"type": "string", "field": "n", "optional": True}]
    row = {"type": "struct", "name": "row", "optional": True, "fields": columns}
    within = [{"type": "string", "field": "id"}]
    parts = [{**row, "field": "before"}, {**row, "field": "after"}]
    parts += [{"type": "struct", "name": "tx", "field": "transaction", "fields": within}]
    files = SchemaFiles(tmp_path)
    sent = {"before": before, "after": after, "transaction": {"id": "17"}}
    schema = {"type": "struct", "name": "envelope", "fields": parts}
    value = files.framed({"schema": schema, "payload": sent})
    key = files.framed({"schema": {"type": "struct", "fields": columns[:1]}, "payload": {"id": 1}})
    options = {"schema_folder": str(tmp_path), "flattened": flattened}
    reader = reader_of(order="arrival", default_table="crop", options=options)
    found = as_json(reader.rows(Message(value, key))[-1])
    texts = [row and {**row, "id": "1"} for row in (before, after)]
    assert (found["op"], found["op_raw"], found["table"]) == (op, None, "crop")
    assert [found["before"], found["after"]] == texts
    assert (found["key"], found["tx_id"]) == ({"id": "1"}, "17")


def test_a_cloud_event_is_no_row(tmp_path: Path) -> None:
    names = ("id", "source", "specversion", "type", "iodebeziumop", "data")
    fields = [{"type": "string", "field": name} for name in names]
    schema = {"type": "struct", "name": "CloudEvents.Envelope", "fields": fields}
    framed = SchemaFiles(tmp_path).framed({"schema": schema, "payload": dict.fromkeys(names, "d")})
    (row,) = reader_of(options={"schema_folder": str(tmp_path)}).rows(Message(framed))
    assert "it is a CloudEvent" in as_json(row)["error"]


ORACLE_CDC = ("table", "scn", "op_ts", "current_ts", "row_id", "username")


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        (("op_ts",), "let its handler write JSON"),
        (("current_ts",), "let its handler write JSON"),
        (("table", "pos"), "let its handler write JSON"),
        (ORACLE_CDC, "Confluent's Oracle CDC connector"),
    ],
)
def test_goldengates_rows_are_not_flattened_ones(
    told: tuple[str, ...], advice: str, tmp_path: Path
) -> None:
    """Its formatter may leave out any of its metadata: a delete among such rows was an upsert."""
    columns = ("op_type", *told, "ID")
    fields = [{"type": "string", "field": name} for name in columns]
    payload = {**dict.fromkeys(columns, "5"), "op_type": "D"}
    schema = {"type": "struct", "name": "S.T", "fields": fields}
    framed = SchemaFiles(tmp_path).framed({"schema": schema, "payload": payload})
    options = {"schema_folder": str(tmp_path), "flattened": True}
    (row,) = reader_of(order="arrival", options=options).rows(Message(framed, topic="S.T"))
    assert advice in as_json(row)["error"]


@pytest.mark.parametrize(
    ("logical", "number", "text"),
    [
        ("timestamp-millis", 1577880000123, "2020-01-01 12:00:00.123"),
        ("timestamp-micros", 1577880000123456, "2020-01-01 12:00:00.123456"),
        ("timestamp-nanos", 1577880000123456789, "2020-01-01 12:00:00.123456789"),
        ("local-timestamp-nanos", 1577880000123456789, "2020-01-01 12:00:00.123456789"),
    ],
)
def test_times_that_avro_alone_names(logical: str, number: int, text: str, tmp_path: Path) -> None:
    """As others than Connect write them: by logicalType."""
    column = {"name": "at", "type": {"type": "long", "logicalType": logical}}
    row = {"type": "record", "name": "Row", "fields": [column]}
    fields = [{"name": "after", "type": row}, {"name": "op", "type": "string"}]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    (tmp_path / "7.avsc").write_text(json.dumps(schema))
    data = b"\0\0\0\0\x07" + written(schema, {"after": {"at": number}, "op": "c"})
    reader = reader_of(order="arrival", options={"schema_folder": str(tmp_path)})
    assert as_json(reader.rows(Message(data))[-1])["after"] == {"at": text}


@pytest.mark.parametrize("op", ["t", "m"])
def test_a_document_in_what_has_no_rows_is_a_contradiction(op: str) -> None:
    """As in JSON: MongoDB's connector sends no truncate, and a message of its log has no row."""
    [folder] = [folder for folder in folders("debezium_avro") if folder.name == "mongodb"]
    sent, *_ = messages(folder)
    assert sent.value is not None and sent.value.count(b"\x02\x02c\x02") == 1
    value = sent.value.replace(b"\x02\x02c\x02", b"\x02\x02" + op.encode() + b"\x02")
    [row] = SourceDecoder(decode_spec(source_of(folder))).rows(sent._replace(value=value))
    assert as_json(row)["error_code"] == "contradiction"
