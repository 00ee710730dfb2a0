"""`ingest inspect` takes on the command line what a source's YAML may say, validated alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.config.load import load
from pipelines.cli.source_options import given_source
from tests.support.project import Project, canal

RECORD = {
    "prevStruct": None,
    "postStruct": {"id": 1, "made": "2024-01-02 03:04:05"},
    "allMetaData": {"dbType": "OB_MYSQL", "timestamp": "1704134400"},
    "recordType": "INSERT",
}
SOURCE = """name: depot
format: oms_default
files: {path: landing/*.jsonl}
default_database: depot
default_table: bins
keys: {depot.bins: [id]}
"""


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    made = Project(tmp_path, capsys.readouterr)
    made.write("conf/sources/depot.yml", SOURCE)
    return made


def inspected(project: Project, *arguments: str) -> dict[str, Any]:
    file = project.land("one.jsonl", [RECORD])
    answer = project.ingest("inspect", str(file), "--json", *arguments)
    assert answer.code == 0, answer.err
    return answer.records[-1]


def test_a_message_without_its_order_key_is_seen_by_arrival(project: Project) -> None:
    row = inspected(project)
    assert (row["kind"], row["error_code"]) == ("reject", "order_key_missing")
    row = inspected(project, "--order", "arrival", "--epoch", "3")
    assert (row["kind"], row["op"], row["epoch"]) == ("change", "insert", 3)


def test_all_that_a_source_may_say_is_taken(project: Project) -> None:
    given = ("--order", "arrival", "--default-database", "shop", "--default-schema", "main")
    types = "shop.items: {made: timestamp}"
    row = inspected(
        project,
        *given,
        "--default-table",
        "items",
        "--keys",
        "shop.items: [id]",
        "--columns",
        types,
        "--time-zone",
        "+08:00",
        "--option",
        "sequence_unit=milliseconds",
    )
    assert (row["db"], row["schema"], row["table"]) == ("shop", "main", "items")
    assert (row["key"], row["after"]["made"]) == ({"id": "1"}, "2024-01-01T19:04:05Z")


def test_the_first_messages_of_a_file(project: Project) -> None:
    types = {"id": "int"}
    rows = [canal("items", "INSERT", {"id": str(n)}, es=1, id_=n, types=types) for n in range(9)]
    file = str(project.land("many.jsonl", rows))
    found = project.ingest("inspect", file, file, "--limit", "7", "--json").records
    changed = [row["after"]["id"] for row in found if row["kind"] == "change"]
    assert changed == [str(n) for n in range(7)]
    for wrong in ("0", "1001"):
        answer = project.ingest("inspect", file, "--limit", wrong)
        assert (answer.code, "expected 1 to 1,000 messages" in answer.err) == (2, True)
    answer = project.ingest("inspect", file, "--newest")
    assert (answer.code, "with --source, and no FILE" in answer.err) == (2, True)


def test_limits_and_statements_are_taken(project: Project) -> None:
    row = inspected(project, "--order", "arrival", "--limit", "message_bytes=20")
    assert (row["kind"], row["error_code"]) == ("reject", "too_large")
    emptied = canal("items", "TRUNCATE", {}, es=1_700_000_000_000, id_=1)
    emptied |= {"isDdl": True, "data": None, "sql": "TRUNCATE TABLE items"}
    line = {"topic": "t", "partition": 1, "offset": 0, "ts": 1_700_000_000_000, "key": None}
    file = project.land("truncate.jsonl", [{**line, "payload": json.dumps(emptied)}])
    halves = []
    for how in ("one_partition", "every_partition"):
        given = ("--framing", "kcat", "--format", "canal", "--statements", how, "--json")
        [row] = project.ingest("inspect", str(file), *given).records
        halves.append(row["pos"][-1])
    assert halves == [1, 2]
    answer = project.ingest("inspect", str(file), "--limit", "nesting")
    assert (answer.code, "`--limit`: expected NAME=VALUE, like nesting=100" in answer.err) == (
        2,
        True,
    )


def test_it_adds_to_what_the_source_says(project: Project) -> None:
    given = ("--source", "depot", "--order", "arrival")
    row = inspected(project, *given, "--columns", "depot.bins: {made: datetime}")
    assert (row["db"], row["table"], row["key"]) == ("depot", "bins", {"id": "1"})
    assert row["warnings"] == ["untyped"]  # of id alone


TRANSPORTS = (
    "kafka: {bootstrap_servers: 'a:1', topics: [t], max_delay: 15 minutes, options: {a.b: 'x'}}\n",
    "rabbitmq: {servers: 'a:1', password: x, queues: [q], starting_offsets: {q: 5}}\n",
    "rocketmq: {name_servers: 'a:1;b:2', topics: [t], starting_offsets: latest}\n",
    "files: {path: 'landing/*.jsonl', framing: whole}\n",
)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_how_messages_come_in_stays_as_the_source_says(tmp_path: Path, transport: str) -> None:
    """What was read of the YAML is not the YAML: seconds stand there with their unit."""
    (tmp_path / "sources").mkdir()
    text = f"name: shop\nrejects: {{fail_above: 1%}}\n{transport}"
    (tmp_path / "sources/shop.yml").write_text(text)
    base = load(tmp_path, environ={}).sources["shop"]
    made = given_source(base, {"keys": ["a.t: [id]"]}, format_=None, framing="lines")
    assert made == base.model_copy(update={"keys": {"a.t": ("id",)}})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--order", "arival"), "`order`: expected auto, source or arrival, got `arival`"),
        (("--epoch", "x"), "`epoch`: expected a whole number, got `x`"),
        (("--epoch", "-1"), "`epoch`: expected 0 or more"),
        (("--time-zone", "Mars"), "expected a time zone like Asia/Shanghai"),
        (("--keys", "bins"), "`--keys`: expected a table and what it has"),
        (("--keys", "depot.bins: []"), "expected at least one name"),
        (("--columns", "depot.bins: {id: int"), "not YAML"),
        (("--option", "sequence_unit"), "`--option`: expected NAME=VALUE"),
        (("--option", "sequence_unit=weeks"), "expected one of auto, seconds, milliseconds"),
        (("--option", "nope=1"), "`options.nope` is not a known key"),
    ],
)
def test_it_is_validated_as_the_yaml_is(
    project: Project, arguments: tuple[str, ...], text: str
) -> None:
    file = project.land("one.jsonl", [RECORD])
    answer = project.ingest("inspect", str(file), "--format", "oms_default", *arguments)
    assert answer.code == 2
    assert "command line: " in answer.err
    assert text in answer.err


KEYLESS = {
    "op": "c",
    "before": None,
    "after": {"id": 1, "made": "monday"},
    "source": {"connector": "mysql", "db": "shop", "table": "bins", "file": "b.1", "pos": 4},
    "ts_ms": 1704134400000,
}


def notes(project: Project, *arguments: str) -> str:
    file = project.land("one.jsonl", [KEYLESS])
    answer = project.ingest("inspect", str(file), "--format", "debezium", *arguments)
    assert answer.code == 0, answer.err
    return answer.out


def test_a_change_without_a_key_says_how_to_give_it_one(project: Project) -> None:
    wanted = "no key: declare keys: in the source, or --keys"
    assert wanted in notes(project)
    assert wanted not in notes(project, "--json")
    assert wanted not in notes(project, "--keys", "shop.bins: [id]")


def test_keys_of_a_table_that_no_message_is_of(project: Project) -> None:
    file = project.land("one.jsonl", [KEYLESS])
    keys = ("--keys", "shop.bins: [id]", "--keys", "shop.bnis: [id]")
    for form in ((), ("--json",)):
        answer = project.ingest("inspect", str(file), "--format", "debezium", *keys, *form)
        said = "`--keys`: no message is of the table shop.bnis; the messages are of shop.bins\n"
        assert (answer.code, answer.err) == (0, said)


def test_a_source_also_shows_what_gold_would_make_of_it(project: Project) -> None:
    project.write("conf/sources/shop.yml", "name: shop\nformat: canal\nfiles: {path: a.jsonl}\n")
    project.write(
        "conf/tables/shop.yml",
        "source: shop\n"
        "tables:\n"
        "  - from: shop.items\n"
        "    columns: {PRICE: 'decimal(9,2)'}\n"
        "    exclude: [name]\n"
        "  - {from: shop.prices, target: 'all_{table}', stored_as_scd_type: 2, keys: [sku]}\n"
        "  - from: shop.clicks\n"
        "  - {from: shop.versions, stored_as_scd_type: 2}\n",
    )
    pen = {"id": "1", "name": "pen", "price": "1.10"}
    file = project.land(
        "a.jsonl",
        [
            canal("items", "INSERT", pen, es=1, id_=1),
            canal("prices", "INSERT", {"sku": "a", "_pos": "1"}, es=2, id_=2, types={"sku": "int"}),
            *(
                canal(name, "INSERT", {"id": "1"}, es=3, id_=3, types={"id": "int"}, keys=())
                for name in ("clicks", "versions", "other")
            ),
        ],
    )
    answer = project.ingest("inspect", "--source", "shop", str(file))
    assert answer.out.splitlines()[-5:] == [
        "shop.items -> gold.shop_items, key (id), scd 1: id int, price decimal(9,2)",
        "shop.prices -> gold.all_prices, key (sku), scd 2: sku int, _pos_source string",
        "shop.clicks -> gold.shop_clicks, no key, append: id int",
        "shop.versions -> gold.shop_versions, no key, which scd 2 needs: every change would be set "
        "aside: id int",
        "shop.other: in silver only, no entry of its tables file matches",
    ]
    rows = project.ingest("inspect", "--source", "shop", "--json", str(file)).records
    assert {row["kind"] for row in rows} == {"schema", "change"}


def test_a_torn_type_on_the_command_line_is_one_mistake(project: Project) -> None:
    file = project.land("one.jsonl", [KEYLESS])
    answer = project.ingest(
        "inspect", str(file), "--columns", "shop.bins: {x: decimal(1,2), y: int}"
    )
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "put decimal(1,2) in quotes" in answer.err


def test_what_is_masked_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEPPER", "a pepper that nobody guesses")
    project.write("conf/ingest.yml", "mask_secret: env:PEPPER\n")
    project.write("conf/sources/shop.yml", "name: shop\nformat: canal\nfiles: {path: a.jsonl}\n")
    project.write(
        "conf/tables/shop.yml",
        "source: shop\n"
        "tables: [{from: '*', columns: {Email: {mask: hash}, age: {mask: null, type: int}}}]\n",
    )
    row = {"id": "1", "email": "a@b", "age": "7"}
    file = project.land("a.jsonl", [canal("staff", "INSERT", row, es=1, id_=1)])
    answer = project.ingest("inspect", "--source", "shop", str(file))
    last = answer.out.splitlines()[-1]
    assert last.endswith(", email string masked by hash, age int masked by null"), last


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_columns_that_no_message_has_are_named(project: Project, form: tuple[str, ...]) -> None:
    """A mask or an exclude of a misspelt column would hide nothing, and nobody would know."""
    project.write("conf/sources/shop.yml", "name: shop\nformat: canal\nfiles: {path: a.jsonl}\n")
    project.write(
        "conf/tables/shop.yml",
        "source: shop\n"
        "defaults: {exclude: [SECRET], columns: {phone: {mask: null}}}\n"
        "tables:\n"
        "  - from: '*'\n"
        "  - {from: shop.staff, keys: [Id], columns: {emial: {mask: null}}, sequence_by: [vers]}\n"
        "  - {from: shop.never, columns: {x: int}}\n",
    )
    staff = {"id": "1", "email": "a@b", "version": "1"}
    file = project.land(
        "a.jsonl",
        [
            canal("staff", "INSERT", staff, es=1, id_=1),
            canal("other", "INSERT", {"id": "1", "secret": "x"}, es=2, id_=2),
        ],
    )
    answer = project.ingest("inspect", "--source", "shop", *form, str(file))
    said = "source shop: no message here has the column `{}` of `{}:` in its tables file{}"
    assert answer.code == 0
    assert answer.err.splitlines() == [
        said.format("vers", "sequence_by", "; nearest: version"),
        said.format("phone", "columns", ""),
        said.format("emial", "columns", "; nearest: email"),
    ]


def test_what_gold_would_park_is_said_before_it_is(project: Project) -> None:
    project.write("conf/sources/shop.yml", "name: shop\nformat: canal\nfiles: {path: a.jsonl}\n")
    project.write(
        "conf/tables/shop.yml",
        "source: shop\ntables: [{from: '*', target: '{table}', exclude: [x]}]",
    )
    rows = {
        "Items": {"id": "1"},
        "items": {"id": "1"},
        "blank": {"id": "1", "": "2"},
        "twice": {"id": "1", "v": "2", "V": "3"},
        "hidden": {"id": "1", "x": "2", "X": "3"},
        "_ddl": {"id": "1"},
    }
    file = project.land(
        "a.jsonl",
        [
            canal(name, "INSERT", row, es=n, id_=n, types=dict.fromkeys(row, "int"))
            for n, (name, row) in enumerate(rows.items())
        ],
    )
    answer = project.ingest("inspect", "--source", "shop", str(file))
    both = (
        "would be parked: source tables shop:shop.Items, shop:shop.items lead to one target, "
        "Items; give each a `target` of its own, or one entry for all of them, in a tables file "
        "(conf/tables)"
    )
    assert answer.out.splitlines()[-6:] == [
        f"shop.Items -> gold.Items, {both}",
        f"shop.items -> gold.items, {both}",
        "shop.blank -> gold.blank, would be parked: expected a name for every column, got one "
        "without; no table can hold it: name it at the source",
        "shop.twice -> gold.twice, would be parked: columns `v` and `V` differ only in case; "
        "exclude them",
        "shop.hidden -> gold.hidden, key (id), scd 1: id int",
        "shop._ddl -> gold._ddl, would be parked: shop:shop._ddl would become _ddl, which is a "
        "table of gold's own; set `target` for it in a tables file (conf/tables)",
    ]


def test_a_key_that_only_a_schema_change_names_is_golds_too(project: Project) -> None:
    project.write("conf/sources/shop.yml", "name: shop\nformat: maxwell\nfiles: {path: a.jsonl}\n")
    about = {"database": "shop", "table": "bins", "ts": 1_700_000_000}
    columns = [{"type": "int", "name": "id", "signed": True}]
    made = {"database": "shop", "table": "bins", "primary-key": ["id"], "columns": columns}
    sql = "CREATE TABLE bins (id int primary key)"
    file = project.land(
        "a.jsonl",
        [
            {**about, "type": "table-create", "sql": sql, "def": made},
            {**about, "type": "insert", "data": {"id": 1}},
        ],
    )
    answer = project.ingest("inspect", "--source", "shop", str(file))
    assert answer.out.splitlines()[-1] == "shop.bins -> gold.shop_bins, key (id), scd 1: id string"
