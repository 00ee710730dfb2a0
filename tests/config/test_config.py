"""The conf folder: what it may say, and which of several sayings wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ingest.config.load import Config, load
from ingest.config.settings import DdlPolicy, Retention, Schemas, Settings
from ingest.config.sources import Source
from ingest.config.tables import TableEntry, TableOptions, Tables
from ingest.config.transports import Files, Kafka
from ingest.wire.contract import Decoder, Format, FormatOptions, Option


def _none(_: FormatOptions) -> Decoder:
    return lambda _: iter(())


CANAL = Format(
    decoder=_none,
    order="source",
    summary="",
    source="",
    recognised="",
    ordered="",
    ends="a record COMMIT",
    options={"strict": Option("bool", False, "refuses more")},
)
FORMATS = {"canal": CANAL}
KAFKA = "name: shop\nkafka:\n  bootstrap_servers: h:1\n"
SHOP = "name: shop\nfiles: {path: in/*.jsonl}\n"

Conf = Callable[..., Path]


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conf:
    """Writes a conf folder from texts, named by their paths in it; it becomes `conf` here."""
    monkeypatch.chdir(tmp_path)

    def write(files: Mapping[str, str]) -> Path:
        (tmp_path / "conf").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / "conf" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return Path("conf")

    return write


def loaded(folder: Path, environ: Mapping[str, str] | None = None, **overrides: Any) -> Config:
    return load(folder, environ=environ or {}, overrides=overrides, formats=FORMATS)


def test_every_key_is_accepted_and_arrives(conf: Conf, tmp_path: Path) -> None:
    folder = conf(
        {
            "ingest.yml": """
warehouse: lake
catalog: main
schemas: {bronze: b, silver: s, gold: g, history: h}
checkpoints: /Volumes/main/ops/checkpoints
merge_threads: 4
ddl: {additive: review, widening: ignore, destructive: apply, unparsed: ignore}
retention: {bronze: 1 day, silver: 400 days}
""",
            "sources/farm.yml": r"""
name: farm
format: canal
kafka:
  bootstrap_servers: ${BROKER:-localhost:9092}
  topics_pattern: 'farm\..*'
  starting_offsets: latest
  options: {security.protocol: SASL_SSL, kafka.client.id: me, kafka.max.poll.records: 5}
order: arrival
time_zone: Europe/Lisbon
default_database: barn
default_schema: north
default_table: cows
epoch: 2
keys: {barn.cows: [id, Herd]}
columns: {barn.cows: {born: DATETIME(6), id: bigint unsigned, price: 'NUMBER(10,2)', at: time}}
options: {strict: true}
""",
            "sources/shop.yml": """
name: shop
format: auto
files:
  path: landing/shop/**/*.jsonl
  framing: kcat
  order: path
""",
            "tables/farm.yml": """
source: farm
publish: transaction
defaults: {ddl: {additive: review}}
tables:
  - from: barn.*
    target: '{db}_{schema}_{table}'
  - from: [barn_0?.cows_??]
    target: cows
    keys: [id]
    sequence_by: null
    stored_as_scd_type: 2
    deletes: soft
    truncates: ignore
    columns: {weight: 'decimal(12,2)'}
    exclude: [secret]
    shard_column: shard
""",
        }
    )
    assert loaded(folder) == Config(
        conf=tmp_path / "conf",
        settings=Settings(
            warehouse=str(tmp_path / "lake"),
            catalog="main",
            schemas=Schemas(bronze="b", silver="s", gold="g", history="h"),
            checkpoints="/Volumes/main/ops/checkpoints",
            merge_threads=4,
            ddl=DdlPolicy(
                additive="review", widening="ignore", destructive="apply", unparsed="ignore"
            ),
            retention=Retention.model_validate({"bronze": "1 day", "silver": "400 days"}),
        ),
        sources={
            "farm": Source(
                name="farm",
                format="canal",
                kafka=Kafka(
                    bootstrap_servers="localhost:9092",
                    topics_pattern=r"farm\..*",
                    starting_offsets="latest",
                    options={
                        "kafka.security.protocol": "SASL_SSL",
                        "kafka.client.id": "me",
                        "kafka.max.poll.records": "5",
                    },
                ),
                order="arrival",
                time_zone="Europe/Lisbon",
                default_database="barn",
                default_schema="north",
                default_table="cows",
                epoch=2,
                keys={"barn.cows": ("id", "Herd")},
                columns={
                    "barn.cows": {
                        "born": "DATETIME(6)",
                        "id": "bigint unsigned",
                        "price": "NUMBER(10,2)",
                        "at": "time",
                    }
                },
                options={"strict": True},
            ),
            "shop": Source(
                name="shop",
                files=Files(
                    path=str(tmp_path / "landing/shop/**/*.jsonl"), framing="kcat", order="path"
                ),
            ),
        },
        tables={
            "farm": Tables(
                source="farm",
                publish="transaction",
                defaults=TableOptions(ddl={"additive": "review"}),
                tables=tuple(
                    TableEntry.model_validate(entry)
                    for entry in (
                        {"from": "barn.*", "target": "{db}_{schema}_{table}"},
                        {
                            "from": ["barn_0?.cows_??"],
                            "target": "cows",
                            "keys": ["id"],
                            "sequence_by": None,
                            "stored_as_scd_type": 2,
                            "deletes": "soft",
                            "truncates": "ignore",
                            "columns": {"weight": "decimal(12,2)"},
                            "exclude": ["secret"],
                            "shard_column": "shard",
                        },
                    )
                ),
            ),
            "shop": Tables(source="shop"),
        },
    )


def test_one_source_with_one_transport_is_enough(conf: Conf, tmp_path: Path) -> None:
    found = loaded(conf({"sources/shop.yml": SHOP}))
    assert found.settings == Settings(
        warehouse=str(tmp_path / "warehouse"),
        checkpoints=str(tmp_path / "warehouse" / "_checkpoints"),
    )
    assert found.sources == {
        "shop": Source(
            name="shop",
            format="auto",
            files=Files(path=str(tmp_path / "in/*.jsonl"), framing="lines", order="modified"),
            order="auto",
            epoch=0,
        )
    }
    way = found.route("shop", db="barn", schema=None, table="cows")
    assert way is not None
    assert way.target == "barn_cows"
    for nameless in (None, ""):
        assert found.route("shop", db="barn", schema=None, table=nameless) is None
    assert way.ddl == DdlPolicy(
        additive="apply", widening="apply", destructive="review", unparsed="review"
    )


@pytest.mark.parametrize(
    "framing",
    ["lines", "whole", "length_prefixed", "avro_container", "hex_lines", "base64_lines", "kcat"],
)
def test_every_framing_is_accepted(conf: Conf, framing: str) -> None:
    folder = conf({"sources/shop.yml": f"name: shop\nfiles: {{path: x, framing: {framing}}}\n"})
    files = loaded(folder).sources["shop"].files
    assert files is not None
    assert files.framing == framing


@pytest.mark.parametrize(
    "offsets", ["earliest", "latest", """'{"farm.cows": {"0": 23, "1": -2}}'"""]
)
def test_starting_offsets_are_words_or_json(conf: Conf, offsets: str) -> None:
    servers = "bootstrap_servers: 'a:1,b:2', topics: [farm.cows]"
    text = f"name: s\nkafka: {{{servers}, starting_offsets: {offsets}}}\n"
    kafka = loaded(conf({"sources/s.yml": text})).sources["s"].kafka
    assert kafka is not None
    assert kafka.starting_offsets == offsets.strip("'")


@pytest.mark.parametrize("scd", ["1", "2", "'2'", "append"])
def test_scd_types(conf: Conf, scd: str) -> None:
    text = f"source: shop\ntables: [{{from: '*', stored_as_scd_type: {scd}}}]\n"
    found = loaded(conf({"sources/shop.yml": SHOP, "tables/t.yml": text}))
    expected = "append" if scd == "append" else int(scd.strip("'"))
    assert found.tables["shop"].tables[0].stored_as_scd_type == expected


def test_the_folder_may_stand_anywhere_and_paths_start_beside_it(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf({"ingest.yml": "warehouse: ../lake\ncheckpoints: marks\n", "sources/shop.yml": SHOP})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = loaded(Path("../conf"))
    assert found.root == tmp_path
    assert found.settings.warehouse == str(tmp_path.parent / "lake")
    assert found.settings.checkpoints == str(tmp_path / "marks")
    files = found.sources["shop"].files
    assert files is not None
    assert files.path == str(tmp_path / "in" / "*.jsonl")
    # What is typed starts where it is typed.
    assert loaded(Path("../conf"), warehouse="w").settings.warehouse == os.path.abspath("w")


def test_uris_stay_as_they_are(conf: Conf) -> None:
    text = "name: shop\nfiles: {path: 's3://bucket/a/**'}\n"
    found = loaded(conf({"sources/shop.yml": text}))
    assert found.sources["shop"].files == Files(path="s3://bucket/a/**")


# --- what wins


def test_command_line_over_environment_over_file_over_default(conf: Conf) -> None:
    folder = conf(
        {
            "sources/shop.yml": SHOP,
            "ingest.yml": "merge_threads: 2\nschemas: {gold: g_file, silver: s_file}\n"
            "ddl: {additive: review}\n",
        }
    )
    environ = {
        "INGEST_SCHEMAS__GOLD": "g_env",
        "INGEST_MERGE_THREADS": "3",
        "INGEST_DDL__WIDENING": "ignore",
        "INGEST_CATALOG": "",
        "INGEST_SHARED": "not a setting",
    }
    settings = loaded(folder, environ, merge_threads=5).settings
    assert settings.merge_threads == 5
    assert settings.catalog is None
    assert settings.schemas == Schemas(bronze="bronze", silver="s_file", gold="g_env")
    assert settings.ddl == DdlPolicy(additive="review", widening="ignore")
    assert loaded(folder, environ).settings.merge_threads == 3
    assert loaded(folder).settings.merge_threads == 2


def test_the_environment_is_the_process_s_own_unless_given(
    conf: Conf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGEST_CATALOG", "main")
    monkeypatch.setenv("INGEST_CHECKPOINTS", "/Volumes/c")
    folder = conf({"sources/shop.yml": SHOP})
    assert load(folder, formats=FORMATS).settings.catalog == "main"
    assert load(folder, formats=FORMATS, environ={}).settings.catalog is None


def test_java_s_letter_classes_are_no_mistake(conf: Conf) -> None:
    source = KAFKA + r"  topics_pattern: 'farm\.[\p{Alpha}_]+'" + "\n"
    assert loaded(conf({"sources/shop.yml": source})).sources["shop"].kafka is not None


@pytest.mark.parametrize(
    "pattern", [r"\Qfarm.\E.*", "[a-z&&[^b]]+", "(?<herd>cows|hens)", "(?<=farm)x(?<!y)", r"\Q("]
)
def test_what_java_s_patterns_have_and_python_s_have_not(
    conf: Conf, pattern: str, recwarn: pytest.WarningsRecorder
) -> None:
    source = f"{KAFKA}  topics_pattern: '{pattern}'\n"
    assert loaded(conf({"sources/shop.yml": source})).sources["shop"].kafka is not None
    assert not recwarn.list


def test_an_option_of_databricks_source_is_no_option_of_the_client(conf: Conf) -> None:
    options = (
        "{databricks.serviceCredential: reader, databricks.serviceCredential.scope: 'https://b'}"
    )
    source = f"{KAFKA}  topics: [t]\n  options: {options}\n"
    kafka = loaded(conf({"sources/shop.yml": source})).sources["shop"].kafka
    assert kafka is not None
    assert kafka.options == {
        "databricks.serviceCredential": "reader",
        "databricks.serviceCredential.scope": "https://b",
    }


def test_the_models_obey_their_rules_wherever_they_are_made() -> None:
    with pytest.raises(ValueError, match="got kafka and files"):
        Source.model_validate(
            {
                "name": "s",
                "files": {"path": "x"},
                "kafka": {"bootstrap_servers": "h:1", "topics": ["t"]},
            }
        )


def test_secrets_are_not_shown(conf: Conf) -> None:
    options = "{security.protocol: SASL_SSL, sasl.jaas.config: '${WORD}'}"
    source = f"{KAFKA}  topics: [t]\n  options: {options}\n"
    found = loaded(conf({"sources/shop.yml": source}), {"WORD": "sesame"})
    kafka = found.sources["shop"].kafka
    assert kafka is not None
    assert kafka.options["kafka.sasl.jaas.config"] == "sesame"
    assert "sesame" not in repr(found)


def test_reading_the_configuration_starts_no_spark() -> None:
    heavy = "{'pyspark', 'delta', 'pandas', 'pydantic_settings'}"
    code = f"import sys, ingest.config.load; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_retention_is_in_days(conf: Conf) -> None:
    source = {"sources/shop.yml": KAFKA + "  topics: [t]\n"}
    kept = loaded(conf(source)).settings.retention
    assert (kept.bronze, kept.silver) == (None, None)
    environ = {"INGEST_RETENTION__BRONZE": "30 days"}
    assert loaded(conf(source), environ).settings.retention.bronze == 30
