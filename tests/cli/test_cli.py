"""The command without Spark: options, help, mistakes, formats, inspect; what it costs to start."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import platform
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ingest.codes import Code
from ingest.errors import PlatformError
from ingest.events import SILVER
from ingest.formats import FORMATS
from pipelines.cli.app import main
from pipelines.cli.reports import _write
from tests.support.project import Project, canal

ROOT = Path(__file__).resolve().parents[2]
SHOP = """\
name: shop
format: canal
files:
  path: landing/*.jsonl
"""
PEN = {"id": "1", "name": "pen", "price": "1.10"}


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    made = Project(tmp_path, capsys.readouterr)
    made.write("conf/sources/shop.yml", SHOP)
    return made


def run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from pipelines.cli.app import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})},
        **options,
    )


def test_success_returns_and_help_too() -> None:
    main(["--help"])
    main(["formats"])
    main(["run", "-h"])


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["version"], ["version", "--json"]])
def test_the_version_is_told_with_what_it_runs_on(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.9"\n')
    monkeypatch.setattr("pipelines.platform.java.find_java", lambda: tmp_path)
    main(words)
    own, spark, delta = map(version, ("delta-cdc-ingest", "pyspark", "delta-spark"))
    python = platform.python_version()
    told = (
        f"ingest {own} (Python {python}, pyspark {spark}, delta-spark {delta}, Java 17.0.9)\n"
        if "--json" not in words
        else f'{{"ingest":"{own}","Python":"{python}","pyspark":"{spark}",'
        f'"delta-spark":"{delta}","Java":"17.0.9"}}\n'
    )
    assert capsys.readouterr().out == told


def test_the_version_is_told_without_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> Path:
        raise PlatformError("there is none")

    monkeypatch.setattr("pipelines.platform.java.find_java", none)
    main(["version"])
    assert capsys.readouterr().out.endswith(", no Java)\n")


def test_one_text_is_taken_apart_as_a_shell_would(project: Project) -> None:
    told = project.ingest("formats", "canal").out
    assert project.ingest("line", "formats 'canal'").out == told
    assert project.ingest("line", "validate --json").records[0]["source"] == "shop"
    for wrong, said in (("formats 'canal", "No closing quotation"), ("statu", "No such command")):
        answer = project.ingest("line", wrong)
        assert (answer.code, said in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs"], "No such command 'runs'"),
        (["run", "--sorce", "shop"], "No such option"),
        (["history"], "Missing argument 'TABLE'"),
        (["as-of", "items"], "expected either --time or --pos"),
        (["as-of", "items", "--time", "soon"], "`--time`: expected a date or time like"),
        (["reconcile", "items", "--format", "csv"], "--format needs --snapshot"),
        (["ddl", "decide", "x"], "No such command 'decide'"),
        (["rejects", "again"], "No such command 'again'"),
        (["rejects", "dismiss", "1a2b"], "Missing option '--why'"),
        (["rejects", "dismiss", "--why", "x"], "expected either IDs, or --source, --code or both"),
        (["rejects", "dismiss", "1a", "--code", "bad_json", "--why", "x"], "expected either IDs"),
        (["reset"], "expected either TABLE or --source"),
        (["reset", "items", "--bronze"], "--bronze needs --source"),
        (["redecode"], "Missing option '--source'"),
        (["history", "items", "--key", "id"], "--key: expected COL=VALUE, got id"),
        (["erase", "items", "--key", "id"], "--key: expected COL=VALUE, got id"),
        (
            ["erase", "items", "--key", "id=1", "--key", "id=2", "--yes"],
            "expected one value for each column of one key, got id=1, id=2",
        ),
        (["as-of", "items", "--time", ""], "`--time`: expected a date or time like"),
        (["run", "--max-wait", "-1"], "-1.0 is not in the range x>=0"),
        (["inspect", "--limit", "9" * 5000], "`--limit`: expected 1 to 1,000 messages, got 999"),
        (
            ["inspect", "--keys", "a: [\udcff]"],
            "line: expected UTF-8 text, got other bytes",
        ),
        (["inspect", "--default-table", "\udcff"], "expected text in UTF-8, got `\\udcff`"),
    ],
)
def test_mistakes_in_the_command_are_code_2(
    project: Project, arguments: list[str], said: str
) -> None:
    answer = project.ingest(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_folder_is_no_place_of_tables_that_lie_in_a_catalog(project: Project) -> None:
    """Else what was to be tried in a folder would be done to the catalog's tables."""
    project.write("conf/ingest.yml", "catalog: main\ncheckpoints: /kept\n")
    assert project.ingest("validate").code == 0
    for words in (["--warehouse", "scratch", "run"], ["validate", "--warehouse", "scratch"]):
        answer = project.ingest(*words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            "command line: `--warehouse`: expected a warehouse in a folder, got tables in the "
            "catalog main; take `catalog` out of the settings for that, or name both in one place\n"
        )


def test_every_verb_has_help(project: Project) -> None:
    text = project.ingest("--help").out.partition("Commands:\n")[2]
    listed = text.partition("\n\n")[0].splitlines()
    verbs = [line.split()[0] for line in listed if line.strip()]
    assert verbs == [
        *(
            "as-of",
            "bronze",
            "ddl",
            "erase",
            "formats",
            "gold",
            "history",
            "init",
            "inspect",
            "maintain",
        ),
        *("plan", "rebuild", "reconcile", "redecode", "rejects", "report", "reset", "review"),
        "run",
        *("silver", "sql", "status", "upgrade", "validate", "version"),
    ]
    for verb in [[verb] for verb in verbs] + [["ddl", "show"], ["rejects", "list"]]:
        answer = project.ingest(*verb, "--help")
        assert answer.code == 0
        for option in ("--conf DIR", "--warehouse DIR", "--json"):
            assert option in answer.out


def test_global_options_stand_before_or_after_the_verb(project: Project) -> None:
    expected = [
        {
            "kind": "source",
            "source": "shop",
            "format": "canal",
            "transport": "files",
            "order": "auto",
            "entries": 1,
        }
    ]
    assert project.ingest("--json", "validate").records == expected
    assert project.ingest("validate", "--json").records == expected
    other = project.folder / "other"
    (project.folder / "conf").rename(other)
    assert project.ingest("validate", "--json", "--conf", str(other)).records == expected
    assert project.ingest("ddl", "--conf", str(other), "list", "--status", "x").code == 2


def test_validate_for_people(project: Project) -> None:
    answer = project.ingest("validate")
    assert answer.out == (
        "source   format   transport   order   entries\n"
        "─────────────────────────────────────────────\n"
        "shop     canal    files       auto          1\n"
        "\n"
        f"{project.folder / 'conf'}: no mistakes\n"
    )


def test_validate_can_try_what_the_sources_name(project: Project) -> None:
    project.land("a.jsonl", ["{}"])
    answer = project.ingest("validate", "--connect")
    told = f"source shop: 1 file of {project.folder}/landing/*.jsonl\n"
    assert (answer.code, answer.out.endswith(told)) == (0, True)

    assert answer.out.count(": no mistakes\n") == 1
    kafka = "name: till\nkafka: {bootstrap_servers: 'localhost:%d', topics: [t], options: %s}\n"
    kerberos = "{security.protocol: SASL_SSL, sasl.mechanism: GSSAPI}"
    with socket.create_server(("localhost", 0)) as broker:
        port = broker.getsockname()[1]
        project.write("conf/sources/till.yml", kafka % (port, kerberos))
        answer = project.ingest("validate", "--connect")
        assert answer.code == 0 and f"a broker of localhost:{port} is reachable" in answer.out
        assert "not tried: a login by GSSAPI" in answer.out
        inspected = project.ingest("inspect", "--source", "till", "--newest")
        assert inspected.code == 2 and "read by Spark alone" in inspected.err
    project.write("conf/sources/shop.yml", SHOP.replace("landing/", "nowhere/"))
    answer = project.ingest("validate", "--connect")
    assert answer.code == 1
    assert "no mistakes" not in answer.out + answer.err
    assert "conf: 2 of 2 sources cannot be read as declared" in answer.err
    assert "source shop: reads" in answer.err and "but there is no" in answer.err
    assert f"source till: no Kafka broker answers at localhost:{port}" in answer.err
    records = project.ingest("validate", "--connect", "--json").records[-2:]
    assert [(r["kind"], r["source"], r["reachable"]) for r in records] == [
        ("connection", "shop", False),
        ("connection", "till", False),
    ]


def test_validate_tries_where_schemas_are(project: Project) -> None:
    project.land("a.jsonl", ["{}"])

    def tried(options: str) -> tuple[int, str]:
        avro = SHOP.replace("canal", "debezium_avro") + f"options: {{{options}}}\n"
        project.write("conf/sources/shop.yml", avro)
        answer = project.ingest("validate", "--connect")
        return answer.code, answer.out + answer.err

    code, said = tried("schema_folder: schemas")
    assert code == 1 and f"there is no folder {project.folder}/schemas: create it" in said
    (project.folder / "schemas").mkdir()
    assert tried("schema_folder: schemas")[0] == 0
    with socket.create_server(("localhost", 0)) as registry:
        port = registry.getsockname()[1]
        assert tried(f"schema_registry: 'http://localhost:{port}'")[0] == 0
    code, said = tried(f"schema_registry: 'http://localhost:{port}'")
    assert code == 1 and f"no registry answers at localhost:{port} (Connection refused)" in said


def test_validate_names_every_mistake(project: Project) -> None:
    project.write("conf/sources/shop.yml", SHOP.replace("canal", "cannal") + "epoc: 1\n")
    project.write("conf/tables/shop.yml", "source: shop\ntables:\n  - form: shop.*\n")
    answer = project.ingest("validate", "--json")
    assert answer.code == 2
    files = [
        (Path(found["file"]).relative_to(project.folder / "conf").as_posix(), found["line"])
        for found in answer.records
    ]
    expected = [("sources/shop.yml", 2), ("sources/shop.yml", 5)]
    assert files == [*expected, ("tables/shop.yml", 3), ("tables/shop.yml", 3)]
    assert "nearest: canal" in answer.err and "nearest: epoch" in answer.err
    assert len(answer.err.splitlines()) == len(answer.records)
    assert "Traceback" not in answer.err


def test_a_report_goes_to_a_folder_that_is_there(project: Project) -> None:
    """It was made, and so was a folder of a name that may be a slip."""
    folder = project.folder / "reprots"
    answer = project.ingest("report", "--out", str(folder / "x.html"))
    assert (answer.code, folder.exists()) == (2, False)
    assert f"x.html, and there is no folder {folder}; make it, or choose another" in answer.err
    answer = project.ingest("report", "--out", str(project.folder))
    assert (answer.code, f"got {project.folder}, a folder" in answer.err) == (2, True)


def test_a_report_takes_no_place_of_a_link_or_a_device(tmp_path: Path) -> None:
    page, link, pipe = (tmp_path / name for name in ("page", "link", "pipe"))
    link.symlink_to(page)
    _write(link, b"one")
    assert (link.is_symlink(), page.read_bytes()) == (True, b"one")
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _write(pipe, b"two")
    assert (pipe.is_fifo(), os.read(end, 9)) == (True, b"two")
    os.close(end)


def test_formats_lists_the_registry(project: Project) -> None:
    assert project.ingest("formats", "--json").records == [
        {"name": name, "summary": format_.summary, "order": format_.order}
        for name, format_ in FORMATS.items()
    ]
    assert project.ingest("formats", "--codes", "--json").records == [
        {"code": code.value, "severity": code.severity, "text": code.text} for code in Code
    ]


WRITTEN_DOWN = {
    "name": "ob_avro oms_default oms_dataworks oms_shareplex dataworks canal cloudcanal debezium "
    "debezium_avro maxwell ogg dms ticdc_open ticdc_simple wal2json dts",
    "code": "bad_json bad_avro bad_framing unknown_schema_id unknown_op unknown_format "
    "ambiguous_format image_count no_image contradiction statement_dml too_large empty_value "
    "order_key_missing fragment_incomplete no_key null_key type_mismatch no_base_image "
    "shard_key_conflict late_beyond_horizon lenient_json dup_key partial_image untyped "
    "ts_unit_inferred tz_assumed old_missing zero_date placeholder_value",
}


@pytest.mark.parametrize("field", WRITTEN_DOWN)
def test_names_that_stand_in_configurations_and_queries_stay(project: Project, field: str) -> None:
    options = ("--codes",) if field == "code" else ()
    listed = [row[field] for row in project.ingest("formats", *options, "--json").records]
    assert set(WRITTEN_DOWN[field].split()) <= set(listed)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_tells_all_of_one(project: Project, name: str) -> None:
    format_ = FORMATS[name]
    [record] = project.ingest("formats", name, "--json").records
    assert record == {
        "name": name,
        "summary": format_.summary,
        "source": format_.source,
        "recognised": format_.recognised,
        "ordered": format_.ordered,
        "order": format_.order,
        "ends": format_.ends or None,
        "options": {
            key: {
                "kind": option.kind,
                "default": list(option.default)
                if isinstance(option.default, tuple)
                else option.default,
                "choices": list(option.choices),
                "text": option.text,
            }
            for key, option in format_.options.items()
        },
        "impossible": dict(format_.impossible),
        "losses": [loss._asdict() for loss in format_.losses],
    }
    people = project.ingest("formats", name).out
    lost = [loss.what for loss in format_.losses]
    assert all(key in people for key in [*format_.options, *format_.impossible, *lost])


def test_unknown_format_has_a_nearest(project: Project) -> None:
    answer = project.ingest("formats", "debezum")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("got `debezum`; nearest: debezium\n")


def test_inspect_gives_the_columns_of_silver(project: Project) -> None:
    message = canal("items", "INSERT", PEN, es=1700000000000, id_=7)
    file = project.land("a.jsonl", [message, '{"data":['])
    schema, change, reject = project.ingest("inspect", "--json", str(file)).records
    names = [column.name for column in SILVER]
    assert [list(row) for row in (schema, change, reject)] == [names, names, names]
    for row in (schema, change, reject):
        assert row.pop("decoded_at").endswith("Z")
    assert {name: value for name, value in change.items() if value is not None} == {
        "kind": "change",
        "source": "inspect",
        "topic": str(file),
        "partition": 0,
        "offset": 0,
        "row": 0,
        "format": "canal",
        "op": "insert",
        "op_raw": "INSERT",
        "db": "shop",
        "table": "items",
        "key_columns": ["id"],
        "key": {"id": "1"},
        "after": {"id": "1", "name": "pen", "price": "1.10"},
        "after_image": "full",
        "id": "7",
        "pos": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        "epoch": 0,
        "s1": 0,
        "event_time": "2023-11-14T22:13:20Z",
        "sent_time": "2023-11-14T22:13:20.500000Z",
        "schema_id": schema["schema_id"],
        "value_hash": change["value_hash"],
        "key_hash": change["key_hash"],
    }
    # 64-bit numbers beyond 2^53 are text.
    assert isinstance(change["value_hash"], str)
    assert schema["columns"] == [
        {"name": "id", "source_type": "int", "type": "int"},
        {"name": "name", "source_type": "varchar(20)", "type": "string"},
        {"name": "price", "source_type": "decimal(12,2)", "type": "decimal(12,2)"},
    ]
    assert {name: reject[name] for name in ("kind", "offset", "error_code", "value")} == {
        "kind": "reject",
        "offset": 1,
        "error_code": reject["error_code"],
        "value": "eyJkYXRhIjpb",
    }


def test_inspect_for_people(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    pencil = {**PEN, "name": "pencil"}
    message = canal("items", "UPDATE", pencil, old={"name": "pen"}, es=1700000000000, id_=7)
    project.land("a.jsonl", [message, message])
    lines = project.ingest("inspect", "--format", "canal", "landing/a.jsonl").out.splitlines()
    assert [re.split(" {3,}", line) for line in lines if "update" in line] == [
        [
            f"landing/a.jsonl:{offset}",
            "canal",
            "change",
            "update",
            "shop.items",
            "id=1",
            "id=1 name=pen price=1.10",
            "id=1 name=pencil price=1.10",
        ]
        for offset in (0, 1)
    ]


def test_inspect_shows_people_no_more_than_they_can_read(project: Project) -> None:
    pens = [canal("items", "INSERT", PEN, es=5, id_=n, keys=()) for n in range(1000)]
    file = project.land("a.jsonl", [*pens, canal("mugs", "INSERT", PEN, es=5, id_=0, keys=())])
    answer = project.ingest("inspect", str(file), "--keys", "shop.mugs: [id]")
    assert answer.code == 0
    # The last table is not shown, and yet it came.
    assert answer.err == "the first 1,000 rows; --json gives all\n"
    assert "mugs" not in answer.out
    assert len(project.ingest("inspect", str(file), "--json").records) == 1003


def test_inspect_takes_what_the_sources_yaml_says(project: Project) -> None:
    project.write(
        "conf/sources/shop.yml", SHOP + "epoch: 3\norder: source\nkeys: {shop.items: [name]}\n"
    )
    file = project.land("a.jsonl", [canal("items", "INSERT", PEN, es=1700000000000, id_=7)])
    *_, row = project.ingest("inspect", "--source", "shop", "--json", str(file)).records
    assert (row["source"], row["key"], row["pos"]) == (
        "shop",
        {"name": "pen"},
        [3, 1, 1700000000000, 7, 0, 0, 0, 0, 0, 0, 1],
    )
    answer = project.ingest("inspect", "--source", "shp", str(file))
    assert (answer.code, answer.out) == (2, "")
    assert "nearest: shop" in answer.err


def test_inspect_looks_at_what_a_source_has_now(project: Project) -> None:
    project.land("a.jsonl", [canal("items", "INSERT", PEN, es=n, id_=n) for n in (1, 2)])
    project.land("b.jsonl", [canal("items", "INSERT", PEN, es=n, id_=n) for n in (3, 4, 5)])
    project.write("conf/sources/shop.yml", SHOP + "order: source\n")

    def seen(*options: str) -> list[tuple[str, int, int]]:
        rows = project.ingest("inspect", "--source", "shop", "--json", *options).records
        changes = [row for row in rows if row["kind"] == "change"]
        return [(Path(row["topic"]).name, row["offset"], row["pos"][3]) for row in changes]

    assert seen("--oldest", "--limit", "3") == [
        *(("a.jsonl", 0, 1), ("a.jsonl", 1, 2)),
        ("b.jsonl", 0, 3),
    ]
    newest = [("a.jsonl", 1, 2), *(("b.jsonl", n, n + 3) for n in range(3))]
    assert seen("--limit", "4") == seen("--newest", "--limit", "4") == newest
    assert len(seen("--newest")) == 5
    for wrong in (("--newest", "--oldest"), ("--limit", "0"), ("--limit", "1001")):
        assert project.ingest("inspect", "--source", "shop", *wrong).code == 2
    assert project.ingest("inspect", "--newest").code == 2
    assert project.ingest("inspect", "--source", "shop", "--newest", "landing/a.jsonl").code == 2


def test_inspect_reads_standard_input_and_packed_files(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = json.dumps(canal("items", "INSERT", PEN, es=5, id_=7)).encode() + b"\n"
    files = {"a.gz": gzip.compress(line), "b.bz2": bz2.compress(line * 2), "c": line}
    for name, content in files.items():
        (project.folder / name).write_bytes(content)
    paths = [str(project.folder / name) for name in files]
    rows = project.ingest("inspect", "--json", *paths).records
    changes = [row for row in rows if row["kind"] == "change"]
    assert [(row["topic"], row["partition"], row["offset"]) for row in changes] == [
        (paths[0], 0, 0),
        (paths[1], 1, 0),
        (paths[1], 1, 1),
        (paths[2], 2, 0),
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    [_, row] = project.ingest("inspect", "--json").records
    assert (row["topic"], row["after"]) == ("-", PEN)


def test_inspect_keeps_what_a_topic_was_captured_with(project: Project) -> None:
    message = json.dumps(canal("items", "INSERT", PEN, es=5, id_=7, keys=()))
    captured = {"topic": "t", "partition": 2, "offset": 40, "ts": 1700000000123}
    file = project.land("a.kcat", [{**captured, "key": '{"id":1}', "payload": message}])
    *_, row = project.ingest("inspect", "--framing", "kcat", "--json", str(file)).records
    found = [row[name] for name in ("topic", "partition", "offset", "s1", "key")]
    assert found == ["t", 2, 40, 1700000000123, {"id": "1"}]
    # The stream's number has some sixty bits.
    assert row["pos"][7].isdigit() and int(row["pos"][7]) > 2**53


def test_inspect_places_captured_lines_as_a_run_does(project: Project) -> None:
    """A line without coordinates is of its file, whatever header its sender gave it."""
    message = json.dumps(canal("items", "INSERT", PEN, es=5, id_=7))
    forged = {"payload": message, "headers": ["ingest.file", "0 other"]}
    lines: list[dict[str, Any]] = [{"payload": message}, forged]
    paths = [str(project.land(f"{name}.kcat", lines)) for name in "ab"]
    rows = project.ingest("inspect", "--framing", "kcat", "--json", *paths).records
    assert [row["pos"][7:9] for row in rows if row["kind"] == "change"] == [
        [file, line] for file in (0, 1) for line in (0, 1)
    ]
    source = "name: shop\nformat: canal\nfiles: {path: 'landing/*.kcat', framing: kcat}\n"
    project.write("conf/sources/shop.yml", source)
    rows = project.ingest("inspect", "--source", "shop", "--oldest", "--json").records
    assert {row["pos"][7] for row in rows if row["kind"] == "change"} == {0, 1}


def test_inspect_names_all_that_is_not_there(project: Project) -> None:
    answer = project.ingest("inspect", "--framing", "line", "--format", "kanal", "none", "/")
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["command line", "command line", "none", "/"]
    assert "nearest: canal" in lines[0] and "nearest: lines" in lines[1]
    assert lines[3] == "/: expected a file of messages, got a folder; name the files in it"
    answer = project.ingest("inspect", os.devnull)
    assert (answer.code, answer.err) == (
        *(2, f"{os.devnull}: expected a file; what comes by a pipe is read as `-`\n"),
    )


@pytest.mark.parametrize(
    ("source", "needed"), [([], set[str]()), (["--source", "shop"], {"pydantic"})]
)
def test_inspect_loads_no_more_than_it_needs(
    project: Project, source: list[str], needed: set[str]
) -> None:
    file = project.land("a.jsonl", [canal("items", "INSERT", PEN, es=5, id_=7)])
    text = (
        "import sys; from pipelines.cli.app import main; main(sys.argv[1:]);"
        "heavy = {'pyspark', 'pandas', 'pydantic', 'ruamel', 'rich', 'sqlglot', 'fastavro'};"
        "print(*(heavy & set(sys.modules)), file=sys.stderr)"
    )
    conf = ["--conf", str(project.folder / "conf")]
    answer = subprocess.run(
        [sys.executable, "-c", text, *conf, "inspect", "--json", *source, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (answer.returncode, set(answer.stderr.split())) == (0, needed)


def test_exit_codes_of_the_process(project: Project) -> None:
    conf = ["--conf", str(project.folder / "conf")]
    assert run([*conf, "formats"]).returncode == 0
    assert run([*conf, "format"]).returncode == 2
    broken = run([*conf, "--warehouse", "/proc/none", "status"])
    assert (broken.returncode, broken.stdout) == (2, "")
    assert broken.stderr.startswith("expected to write to the warehouse /proc/none, got")
    assert len(broken.stderr.splitlines()) == 1


def test_output_is_utf8_in_every_locale(project: Project) -> None:
    file = project.land("a.jsonl", [canal("items", "INSERT", {**PEN, "name": "čaj"}, es=5, id_=7)])
    odd = os.fsencode(project.folder) + b"/landing/caf\xe9.jsonl"
    os.link(file, odd)
    for options in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli.app", "inspect", str(file), odd, *options],
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().count("čaj") == 2


def test_nobody_has_to_take_the_output() -> None:
    for closed in (">&-", ">&- 2>&-"):
        command = f"'{sys.executable}' -m pipelines.cli.app formats {closed}"
        done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_nobody_foresaw_is_one_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("pipelines.cli.formats.listed", fail)
    answer = project.ingest("formats")
    hint = "; INGEST_DEBUG=1 shows where"
    assert answer == (1, "", f"unexpected ZeroDivisionError: a{hint}\n")
    monkeypatch.setenv("INGEST_DEBUG", "1")
    answer = project.ingest("formats")
    assert answer.code == 1 and "Traceback" in answer.err


def test_the_module_is_the_command_too() -> None:
    """As `spark-submit` and `python -m` start it."""
    command = [sys.executable, "-m", "pipelines.cli.app", "formats", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == list(FORMATS)
    wrong = subprocess.run([*command[:3], "statu"], cwd=ROOT, capture_output=True, check=False)
    assert wrong.returncode == 2
