"""What `ingest init --from` says, from catalogues that no server has to hold."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ingest.config.load import load
from ingest.errors import ConfigError, PlatformError
from pipelines.catalogue import mysql, postgresql
from pipelines.catalogue.address import parse_address
from pipelines.catalogue.advice import advice
from pipelines.catalogue.model import Catalogue, CatalogueTable
from pipelines.catalogue.proposal import source_text, tables_text
from pipelines.cli.app import main
from pipelines.scaffold.files import SETTINGS

HOSTILE = "a: 'b' # \"c\" {d}"
DEPOT = Catalogue(
    kind="postgresql",
    version="17.2",
    database="depot",
    user="reader",
    tables=(
        CatalogueTable(
            "public", "items", {"id": "bigint", HOSTILE: "numeric(10,2)"}, ("id",), "default"
        ),
        CatalogueTable("old", "items", {"id": "bigint"}, ("id",), "full"),
        CatalogueTable(
            "public",
            "Log",
            {"text": "character varying(20)", "moods": "public.mood[]", "place": "address"},
            (),
            "default",
        ),
    ),
    settings={"wal_level": "replica", "max_replication_slots": "10", "max_wal_senders": "0"},
)
SHOP = Catalogue(
    kind="mariadb",
    version="10.11.6-MariaDB",
    database="shop",
    user="app",
    tables=(
        CatalogueTable(
            None, "orders", {"id": "bigint(20) unsigned", "mood": "enum('a','it''s')"}, ("id",)
        ),
    ),
    settings={
        "log_bin": "OFF",
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "server_id": "1",
    },
)


@pytest.mark.parametrize("catalogue", [DEPOT, SHOP], ids=lambda catalogue: catalogue.database)
@pytest.mark.parametrize("format_", ["debezium", "debezium_avro", "wal2json", "canal", "maxwell"])
def test_what_is_written_is_a_configuration(
    catalogue: Catalogue, format_: str, tmp_path: Path
) -> None:
    types = format_ in ("debezium", "maxwell")
    conf = tmp_path / "conf"
    for folder in ("sources", "tables"):
        (conf / folder).mkdir(parents=True)
    (conf / "ingest.yml").write_text(SETTINGS)
    text = source_text(catalogue, catalogue.database, format_=format_, types=types)
    (conf / "sources/a.yml").write_text(text)
    (conf / "tables/a.yml").write_text(tables_text(catalogue, catalogue.database))
    config = load(conf)
    source = config.sources[catalogue.database]
    assert (source.format, source.transport) == (format_, "kafka")
    assert bool(source.columns) == types
    if types and catalogue is DEPOT:
        # Types of the user's own come as text.
        [own] = [given for name, given in source.columns.items() if name.endswith("Log")]
        assert own == {"text": "character varying(20)", "moods": "text", "place": "text"}
        assert "moods: text   # public.mood[]" in text
    for table in catalogue.tables:
        route = config.route(
            source.name, db=catalogue.database, schema=table.schema, table=table.name
        )
        assert route is not None
        assert route.keys == (table.key or None)


def test_tables_of_one_name_get_two_targets() -> None:
    told = yaml.safe_load(tables_text(DEPOT, "depot"))["tables"]
    assert [entry["target"] for entry in told] == [
        "depot_public_items",
        "depot_old_items",
        "depot_Log",
    ]


def test_names_that_only_other_signs_or_case_tell_apart_get_targets_of_their_own(
    tmp_path: Path,
) -> None:
    names = ("a-b", "a_b", "A_B", "a_b_2")
    tables = [CatalogueTable(None, name, {"id": "int"}, ("id",), None) for name in names]
    shop = replace(SHOP, tables=tuple(tables))
    for folder, text in (
        ("sources", source_text(shop, "shop", format_="canal", types=False)),
        ("tables", tables_text(shop, "shop")),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.yml").write_text(text)
    targets = [entry.target for entry in load(tmp_path, environ={}).tables["shop"].tables]
    assert targets == ["shop_a_b", "shop_a_b_2", "shop_A_B_3", "shop_a_b_2_2"]


def test_what_is_not_well_is_said_with_the_statement_that_mends_it() -> None:
    said = "\n".join(advice(DEPOT, "debezium"))
    for text in (
        "wal_level is replica: ALTER SYSTEM SET wal_level = logical;",
        "max_wal_senders is 0",
        "ALTER ROLE reader REPLICATION;",
        'CREATE PUBLICATION ingest FOR TABLE public.items, old.items, public."Log";',
        'ALTER TABLE public."Log" REPLICA IDENTITY FULL;',
    ):
        assert text in said
    assert "max_replication_slots" not in said
    said = "\n".join(advice(SHOP, "canal"))
    for text in ("log_bin=ON", "binlog_format=ROW", "binlog_row_image=FULL", "TO 'app'@'%'"):
        assert text in said
    assert "server_id" not in said
    said = "\n".join(advice(replace(SHOP, user="o'hara"), "canal"))
    assert "TO 'o''hara'@'%'" in said


@pytest.mark.parametrize(
    ("url", "lacking"),
    [
        ("oracle://a@b/c", "begins with `oracle`"),
        ("postgresql://host/db", "without user"),
        ("mysql://ada:secret@host", "without database"),
        ("mysql://ada:secret@host:port/db", "host and port cannot be told"),
        ("mysql://ada:secret/x@host/db", "host and port cannot be told"),
        ("mysql://ada:#secret@host/db", "without"),
        ("postgres//u:secret@host/db", "without ://"),
        ("ada:secret@host/db", "begins with `ada`"),
    ],
)
def test_a_url_that_is_none_is_a_sentence(url: str, lacking: str) -> None:
    with pytest.raises(ConfigError, match=lacking) as raised:
        parse_address(url)
    assert "secret" not in str(raised.value)


def test_a_url_is_taken_apart() -> None:
    address = parse_address("mariadb://a%40b:p%2Fw@db.example/shop")
    assert (address.reader, address.port, address.user, address.password) == (
        *("mysql", 3306),
        *("a@b", "p/w"),
    )
    assert "p/w" not in str(address)


@pytest.mark.parametrize(
    ("reader", "driver", "package"),
    [(postgresql, "psycopg", "psycopg"), (mysql, "pymysql", "PyMySQL")],
)
def test_a_driver_that_is_missing_is_a_sentence(
    reader: object, driver: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    read = postgresql.read if reader is postgresql else mysql.read
    with pytest.raises(PlatformError, match=f"needs {package}: pip install"):
        read(parse_address("mysql://a@localhost/b"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "got neither"),
        (("--sample", "a.jsonl", "--from", "mysql://a@b/c"), "got both"),
        (("--sample", "a.jsonl", "--types"), "--types goes with --from"),
        (("--from", "mysql://a@b/c", "--format", "debeziun"), "nearest: debezium"),
        (("--from", "mysql://a@b/c", "--name", "a/b"), "expected a letter or digit, then"),
    ],
)
def test_what_init_is_not_given_is_a_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--conf", str(tmp_path / "conf"), "init", *words])
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "conf").exists()
