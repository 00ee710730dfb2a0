"""`ingest init --sample`: what is written is right, explained, and never written over anything."""

from __future__ import annotations

import glob
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.config.load import load
from ingest.names import quoted
from pipelines.cli.app import main
from pipelines.cli.inspect import inspect
from pipelines.scaffold.guesses import guessed_key, guessed_type, seems_time
from tests.support.demo import ROOT

SAMPLES = sorted(path for path in (ROOT / "conf/demo").glob("*/*.*") if path.suffix != ".avsc")


def init(folder: Path, *words: str) -> int:
    """The exit code of `ingest init` in a conf folder of its own."""
    try:
        main(["init", "--conf", str(folder / "conf"), *words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_is_written_decodes_the_sample(sample: Path, tmp_path: Path) -> None:
    assert init(tmp_path, "--sample", str(sample), "--name", "shop") == 0
    config = load(tmp_path / "conf", environ={})
    source = config.sources["shop"]
    rows = list(inspect([str(sample)], source=source))
    framing = source.files.framing if source.files is not None else None
    before = list(inspect([str(sample)], framing=framing))
    # A format that is named refuses with another code.
    at = [[row["offset"] for row in found if row["error_code"]] for found in (rows, before)]
    assert at[0] == at[1]
    assert not [row for row in rows if "untyped" in (row["warnings"] or ())]


def test_of_no_message_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "shop.jsonl"
    sample.write_text("\n\n")
    assert init(tmp_path, "--sample", str(sample)) == 2
    assert capsys.readouterr().err == f"{sample}: expected messages, found none\n"
    assert not (tmp_path / "conf").exists()


def test_what_stands_in_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [
        {"database": "shop", "table": "orders", "type": "insert", "ts": 1709540000, "xid": at}
        | {"data": {"id": at, "code": f"00{at}", "price": "1.50", "made": "2024-03-04 09:15:00"}}
        for at in (1, 2)
    ]
    sample = tmp_path / "landing" / "shop orders.jsonl"
    sample.parent.mkdir()
    sample.write_text("".join(json.dumps(message) + "\n" for message in messages) + "{\n")
    assert init(tmp_path, "--sample", str(sample)) == 0
    written = (tmp_path / "conf/sources/shop_orders.yml").read_text()
    assert yaml.safe_load(written) == {
        "name": "shop_orders",
        "format": "maxwell",
        "files": {"path": "landing/shop orders.jsonl", "framing": "lines"},
        "columns": {
            "shop.orders": {
                "id": "bigint",
                "code": "string",
                "price": "decimal(9,2)",
                "made": "datetime",
            }
        },
    }
    assert "#   shop.orders: [id]" in written
    assert "# of all messages in the sample but 1\n" in written
    assert yaml.safe_load((tmp_path / "conf/tables/shop_orders.yml").read_text()) == {
        "source": "shop_orders",
        "tables": [{"from": "*"}],
    }
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "not sure: files: reads the sample itself; name your files or topics instead",
        "not sure: shop.orders: no message names its key; is it id?",
        "not sure: shop.orders: types of 4 columns are guessed from values",
        "not sure: 1 x bad_json: expected one JSON value, Input data was truncated; got b'{'",
    ]
    assert "shop.orders" in told.out and "wrote " in told.out


@pytest.mark.parametrize("lacking", [False, True])
def test_changes_with_positions_are_read_by_them(lacking: bool, tmp_path: Path) -> None:
    change = {"database": "shop", "table": "orders", "type": "insert", "ts": 1709540000, "xid": 1}
    changes: list[dict[str, Any]] = [
        {**change, "xoffset": at, "position": f"binlog.000002:{at}", "data": {"id": at}}
        for at in range(3)
    ]
    if lacking:
        del changes[1]["position"]
    sample = tmp_path / "shop.jsonl"
    sample.write_text("".join(json.dumps(change) + "\n" for change in changes))
    assert init(tmp_path, "--sample", str(sample)) == 0
    written = yaml.safe_load((tmp_path / "conf/sources/shop.yml").read_text())
    assert written.get("order") == (None if lacking else "source")


def test_a_key_that_only_a_schema_change_names_is_asked_of_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"database": "shop", "table": "orders", "ts": 1709540000}
    columns = [{"type": "int", "name": "id", "signed": True}]
    definition = {"database": "shop", "table": "orders", "primary-key": ["id"], "columns": columns}
    made = {**about, "type": "table-create", "sql": "CREATE TABLE orders (id int primary key)"}
    messages = [{**made, "def": definition}, {**about, "type": "insert", "data": {"id": 1}}]
    sample = tmp_path / "orders.jsonl"
    sample.write_text("".join(json.dumps(message) + "\n" for message in messages))
    assert init(tmp_path, "--sample", str(sample)) == 0
    assert "names its key" not in capsys.readouterr().err
    assert "keys:" not in (tmp_path / "conf/sources/orders.yml").read_text()


def test_messages_that_refer_to_schemas_are_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Avro is told by its framing; where its schemas are, a person has to say."""
    line = {"topic": "depot.stock", "partition": 0, "offset": 3, "payload_hex": "0000000002" + "00"}
    sample = tmp_path / "depot.jsonl"
    sample.write_text(json.dumps(line) + "\n")
    assert init(tmp_path, "--sample", str(sample)) == 0
    written = yaml.safe_load((tmp_path / "conf/sources/depot.yml").read_text())
    assert (written["format"], written["files"]["framing"]) == ("debezium_avro", "kcat")
    assert written["options"] == {"schema_registry": "${SCHEMA_REGISTRY:-http://localhost:8081}"}
    assert capsys.readouterr().err.splitlines() == [
        "not sure: the messages refer to schemas: correct schema_registry, or set schema_folder; "
        "then `ingest inspect --source depot` shows what they say",
        "not sure: files: reads the sample itself; name your files or topics instead",
    ]
    load(tmp_path / "conf", environ={})


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(ROOT / "conf/demo/canal/1-monday.jsonl")
    assert init(tmp_path, "--sample", sample, "--name", "shop") == 0
    file = tmp_path / "conf/sources/shop.yml"
    settings = tmp_path / "conf/ingest.yml"
    for each in (file, settings):
        each.write_text("# mine\n" + each.read_text())
    mine = file.read_text(), settings.read_text()
    (tmp_path / "conf/tables/shop.yml").unlink()
    assert init(tmp_path, "--sample", sample, "--name", "shop") == 2
    assert "shop.yml: is there already and is not written over" in capsys.readouterr().err
    assert not (tmp_path / "conf/tables/shop.yml").exists()
    assert init(tmp_path, "--sample", sample, "--name", "depot") == 0
    assert (file.read_text(), settings.read_text()) == mine
    assert list(load(tmp_path / "conf", environ={}).sources) == ["depot", "shop"]


@pytest.mark.parametrize(
    "words",
    [
        ("--sample", "no-such-file"),
        ("--sample", str(ROOT / "README.md"), "--format", "canl"),
        ("--sample", str(ROOT / "README.md"), "--framing", "line"),
        ("--sample", str(ROOT / "README.md"), "--name", "../x"),
    ],
)
def test_a_mistake_writes_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    assert init(tmp_path, *words) == 2
    assert list(tmp_path.iterdir()) == []


def test_names_of_messages_are_text(tmp_path: Path) -> None:
    """No name ends a comment or a line, and none is read as YAML."""
    table, column = "a\n- from: evil", "x: {y}\n#"
    message = {"database": "no", "table": table, "type": "insert", "ts": 1, "data": {column: "1"}}
    sample = tmp_path / "m.jsonl"
    sample.write_text(json.dumps(message) + "\n")
    assert init(tmp_path, "--sample", str(sample)) == 0
    found = yaml.safe_load((tmp_path / "conf/sources/m.yml").read_text())
    assert found["columns"] == {f"no.{table}": {column: "bigint"}}
    assert len(yaml.safe_load((tmp_path / "conf/tables/m.yml").read_text())["tables"]) == 1


def _insert(table: str) -> str:
    message = {"database": "d", "table": table, "type": "insert", "ts": 1, "data": {"id": "1"}}
    return json.dumps(message) + "\n"


def test_a_table_whose_name_holds_a_dot(tmp_path: Path) -> None:
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("a.b"))
    assert init(tmp_path, "--sample", str(sample)) == 0
    config = load(tmp_path / "conf", environ={})
    assert config.sources["m"].columns == {"d.a.b": {"id": "bigint"}}
    row, *_ = inspect([str(sample)], source=config.sources["m"])
    assert "untyped" not in (row["warnings"] or ())
    assert "# - from: d.`a.b`" in (tmp_path / "conf/tables/m.yml").read_text()


@pytest.mark.parametrize("table", ["a*", "a`b", "a..b"])
def test_a_table_of_which_nothing_can_be_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert(table) + _insert("t"))
    assert init(tmp_path, "--sample", str(sample)) == 0
    assert load(tmp_path / "conf", environ={}).sources["m"].columns == {"d.t": {"id": "bigint"}}
    said = f"not sure: d.{quoted(table)}: no keys and columns can be declared for it: expected"
    assert said in capsys.readouterr().err


def test_what_would_be_wrong_is_named_where_it_would_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.scaffold.files._tables", lambda *_: "sourc: m\n")
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("t"))
    assert init(tmp_path, "--sample", str(sample)) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}/conf/tables/m.yml:1: nothing was written, since it would be wrong: " in said
    assert not (tmp_path / "conf").exists()


def test_names_of_files_are_no_patterns(tmp_path: Path) -> None:
    (tmp_path / "in [x]").mkdir()
    samples = [str(tmp_path / f"in [x]/{name}.jsonl") for name in ("a[1]", "b*", "c")]
    for sample in samples:
        Path(sample).write_text(_insert("t"))
    for named in ([samples[0]], [samples[1]], samples):
        words = ("--conf", str(tmp_path / f"in [x]/conf{len(named)}{named[0][-9]}"))
        assert init(tmp_path, "--sample", *named, "--name", "s", *words) == 0
        [path] = [
            each.files.path for each in load(words[1], environ={}).sources.values() if each.files
        ]
        assert sorted(glob.glob(path)) == sorted(named)


def test_names_are_no_variables(tmp_path: Path) -> None:
    """Nor are they in what is written as a comment, to be taken out of it."""
    sample = tmp_path / "a${HOME}.jsonl"
    sample.write_text(_insert("t${U}"))
    assert init(tmp_path, "--sample", str(sample), "--name", "s") == 0
    shop = load(tmp_path / "conf", environ={}).sources["s"]
    assert shop.files is not None and shop.files.path == str(sample)
    assert shop.columns == {"d.t${U}": {"id": "bigint"}}
    tables = tmp_path / "conf/tables/s.yml"
    tables.write_text(tables.read_text().replace("  # - from", "  - from"))
    [_, entry] = load(tmp_path / "conf", environ={}).tables["s"].tables
    assert entry.patterns == ("d.t${U}",)


@pytest.mark.parametrize("content", [b"  \n\n", bytes(5_000), b"\x89PNG\n\0\0"])
def test_a_framing_that_makes_nothing_of_a_file_is_not_taken_for_its_own(
    content: bytes, tmp_path: Path
) -> None:
    sample = tmp_path / "m.bin"
    sample.write_bytes(content)
    assert init(tmp_path, "--sample", str(sample)) == 0
    assert yaml.safe_load((tmp_path / "conf/sources/m.yml").read_text())["files"] == {
        "path": "m.bin",
        "framing": "lines",
    }


def test_columns_that_only_case_tells_apart_are_declared_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("t") + _insert("t").replace('"id"', '"ID"'))
    assert init(tmp_path, "--sample", str(sample)) == 0
    assert load(tmp_path / "conf", environ={}).sources["m"].columns == {"d.t": {"id": "bigint"}}
    assert "not sure: d.t: id and ID are one column to gold" in capsys.readouterr().err


def test_of_a_long_sample_the_first_messages_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("t") * 5)
    for most, said in ((3, True), (5, False)):
        monkeypatch.setattr("pipelines.scaffold.sample.MOST", most)
        assert init(tmp_path, "--sample", str(sample), "--name", f"s{most}") == 0
        told = capsys.readouterr().err
        assert ("only the first 3 messages were read; there are more" in told) is said


@pytest.mark.parametrize("file", ["sources/orders.yml", "tables/orders.yml"])
def test_a_name_that_another_file_has_is_not_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    there = tmp_path / "conf" / file
    there.parent.mkdir(parents=True)
    there.write_text(("name" if "sources" in file else "source") + ": Shop\n")
    (tmp_path / "conf/sources").mkdir(exist_ok=True)
    (tmp_path / "conf/sources/spoilt.yml").write_text("name: [\n")
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("t"))
    assert init(tmp_path, "--sample", str(sample), "--name", "shop") == 2
    said = f"{there}: is of a source called `shop` already; give another --name\n"
    assert capsys.readouterr().err == said
    assert not (tmp_path / "conf/ingest.yml").exists()


def test_a_folder_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf").write_text("")
    sample = tmp_path / "m.jsonl"
    sample.write_text(_insert("t"))
    assert init(tmp_path, "--sample", str(sample)) == 2
    assert "cannot be written: Not a directory" in capsys.readouterr().err


def test_standard_input_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path, "--sample", "-") == 2
    assert "expected files, got standard input, which no source reads" in capsys.readouterr().err


def test_several_files_are_one_pattern(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        text = (ROOT / "conf/demo/canal/1-monday.jsonl").read_bytes()
        (tmp_path / "in" / name / "1.jsonl").write_bytes(text)
    samples = [str(path) for path in sorted(tmp_path.glob("in/*/*"))]
    assert init(tmp_path, "--sample", *samples, "--json") == 0
    source = yaml.safe_load((tmp_path / "conf/sources/1.yml").read_text())
    assert source["files"]["path"] == "in/**/*.jsonl"


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("shop.orders.jsonl", "shop.items.jsonl"), "*.jsonl"),
        (("2024-01-01.jsonl.gz", "2024-01-02.jsonl.gz"), "*.jsonl.gz"),
        (("a.kcat.jsonl", "b.kcat.jsonl"), "*.kcat.jsonl"),
        (("a.jsonl", "b.json"), "*"),
        (("a", "ba"), "*"),
    ],
)
def test_the_pattern_of_several_files_ends_as_all_of_them_do(
    tmp_path: Path, names: tuple[str, ...], pattern: str
) -> None:
    for name in names:
        content = _insert("t").encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if ".gz" in name else content)
    samples = [str(tmp_path / name) for name in names]
    assert init(tmp_path, "--sample", *samples, "--name", "s") == 0
    shop = load(tmp_path / "conf", environ={}).sources["s"]
    assert shop.files is not None and shop.files.path == str(tmp_path / pattern)


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        ({"1", "-20"}, "bigint"),
        ({"007"}, "string"),
        ({"12345678901234567890"}, "string"),
        ({"1.50", "-12.125", "3"}, "decimal(11,3)"),
        ({"1" * 40 + ".5"}, "string"),
        ({"1e5"}, "string"),
        ({"true", "false"}, "boolean"),
        ({"2024-03-04"}, "date"),
        ({"2024-03-04 09:15:00", "2024-03-04 09:15:00.5"}, "datetime"),
        ({"2024-03-04T09:15:00Z"}, "timestamp"),
        ({"2024-03-04", "x"}, "string"),
        (set(), "string"),
    ],
)
def test_types_are_guessed_from_all_values(texts: set[str], type_: str) -> None:
    assert guessed_type(texts) == type_


def test_what_may_be_a_time_and_what_may_be_a_key() -> None:
    assert seems_time({"1709540000", "1709540000000"}) and not seems_time({"12"})
    assert guessed_key("orders", ["x", "Order_ID"]) == "Order_ID"
    assert guessed_key("boxes", ["box_id"]) == "box_id"
    assert guessed_key("orders", ["x"]) is None
