"""A format's own options: what the YAML may say, and what the decoder is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.config.load import load
from ingest.config.options import format_options
from ingest.config.sources import Source
from ingest.errors import ConfigError, Mistake
from ingest.formats import FORMATS as REGISTRY
from ingest.wire.contract import Decoder, Format, FormatOptions, Message, Option


def _none(_: FormatOptions) -> Decoder:
    def decode(_: Message) -> Iterator[Any]:
        return iter(())

    return decode


def _format(**options: Option) -> Format:
    return Format(
        decoder=_none, order="source", summary="", source="", recognised="", ordered="",
        options=options,
    )  # fmt: skip


FORMATS = {
    "canal": _format(
        blob_encoding=Option("choice", "auto", "of blobs", ("auto", "base64", "latin1")),
        strict=Option("bool", False, "refuses more"),
        names=Option("list", (), "of things"),
    ),
    "debezium": _format(
        tombstone=Option("choice", "ignore", "what it means", ("ignore", "delete")),
        depth=Option("number", 3, "how deep"),
        prefix=Option("text", "", "of topics"),
        strict=Option("choice", "no", "otherwise", ("no", "very")),
    ),
    "ogg": REGISTRY["ogg"],
    "mongo": _format(
        unavailable_placeholder=REGISTRY["debezium"].options["unavailable_placeholder"]
    ),
    "plain": _format(),
}

OPTION_MISTAKES = [
    (
        "canal",
        "blob_encoding: base46",
        "expected one of auto, base64, latin1, got `base46`; nearest",
    ),
    ("canal", "strict: 1", "`options.strict`: expected true or false, got 1"),
    ("canal", "names: a", "`options.names`: expected a list, got `a`"),
    ("canal", "names: [a, 1]", "expected a list of texts, got 1 in it; put it in quotes"),
    ("canal", "names: [a, null]", "expected a list of texts, got null in it"),
    ("canal", "tombstone: delete", "expected blob_encoding, names or strict"),
    ("debezium", "tombstne: delete", "nearest: tombstone"),
    ("debezium", "depth: deep", "`options.depth`: expected a whole number, got `deep`"),
    ("debezium", "depth: -3", "`options.depth`: expected a number from 1 to 1000000000, got -3"),
    ("debezium", "depth: 0", "`options.depth`: expected a number from 1 to 1000000000, got 0"),
    ("debezium", "depth: 1000000001", "expected a number from 1 to 1000000000, got 1000000001"),
    ("debezium", "prefix: 12", "`options.prefix`: expected text, got 12; put it in quotes"),
    ("debezium", "prefix: [a]", "`options.prefix`: expected text, got a list"),
    ("plain", "depth: 1", "the format plain has no options"),
    ("ogg", "op_types: [INS, UPD, DEL]", "expected 4 different words, those of insert, update,"),
    ("ogg", "op_types: [I, U, D, D]", "delete and truncate, got I, U, D, D"),
    ("ogg", "op_types: []", "got none"),
    ("mongo", "unavailable_placeholder: 'hex:zz'", "hexadecimal digits behind hex:, got `hex:zz`"),
    ("auto", "tombstne: delete", "nearest: tombstone"),
    ("auto", "strict: perhaps", "`options.strict`: expected true or false, got `perhaps`"),
]


@pytest.mark.parametrize(("format", "option", "part"), OPTION_MISTAKES)
def test_a_mistake_of_a_format_s_option(
    tmp_path: Path, format: str, option: str, part: str
) -> None:
    (tmp_path / "sources").mkdir()
    source = f"name: shop\nfiles: {{path: x}}\nformat: {format}\noptions:\n  {option}\n"
    (tmp_path / "sources" / "shop.yml").write_text(source)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environ={}, formats=FORMATS)
    [mistake] = caught.value.mistakes
    assert mistake.file == str(tmp_path / "sources" / "shop.yml")
    assert mistake.line == 5
    assert part in mistake.text


def test_format_options_are_the_source_s_with_the_format_s_defaults() -> None:
    source = Source.model_validate(
        {
            "name": "farm",
            "files": {"path": "x"},
            "time_zone": "Europe/Lisbon",
            "default_database": "barn",
            "default_schema": "north",
            "default_table": "cows",
            "keys": {"barn.cows": ["id"]},
            "columns": {"barn.cows": {"id": "int"}},
            "options": {"names": ["a"], "depth": "12", "strict": "true", "prefix": None},
        }
    )
    told = FormatOptions(
        time_zone="Europe/Lisbon",
        default_database="barn",
        default_schema="north",
        default_table="cows",
        keys={"barn.cows": ("id",)},
        columns={"barn.cows": {"id": "int"}},
    )
    assert format_options(source, FORMATS["canal"]) == told._replace(
        options={"blob_encoding": "auto", "strict": True, "names": ("a",)}
    )
    assert format_options(source, FORMATS["plain"]) == told._replace(options={})
    numbered = source.model_copy(update={"options": {"depth": "12", "prefix": None}})
    assert format_options(numbered, FORMATS["debezium"]) == told._replace(
        options={"tombstone": "ignore", "depth": 12, "prefix": "", "strict": "no"}
    )


AVRO = "name: shop\nformat: debezium_avro\nkafka: {bootstrap_servers: 'h:1', topics: [t]}\n"
AVRO_FILES = AVRO.replace("kafka: {bootstrap_servers: 'h:1', topics: [t]}", "files: {path: '*'%s}")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (AVRO, True),
        (AVRO + "options: {registry_user: ada, schema_registry: '${NONE:-}'}\n", True),
        (AVRO_FILES % "", True),
        (AVRO + "options: {schema_registry: 'http://r'}\n", False),
        (AVRO + "options: {schema_folder: schemas}\n", False),
        (AVRO.replace("debezium_avro", "auto"), False),
        # Each of these files holds its schema.
        (AVRO_FILES % ", framing: avro_container", False),
    ],
)
def test_schemas_have_to_come_from_somewhere(tmp_path: Path, text: str, wrong: bool) -> None:
    (tmp_path / "conf/sources").mkdir(parents=True)
    file = tmp_path / "conf/sources/shop.yml"
    file.write_text(text)
    found: list[Mistake] = []
    try:
        load(tmp_path / "conf", environ={})
    except ConfigError as error:
        found = list(error.mistakes)
    said = "`format`: debezium_avro needs options.schema_registry or options.schema_folder"
    assert found == ([Mistake(str(file), 2, said)] if wrong else [])


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("http://registry:8081", None),
        ("https://ada:secret@registry/api/ccompat/v7/", None),
        ("http://[::1]:8081", None),
        ("HTTP://registry:8081", None),
        ("localhost:8081", "it has to begin with http:// or https://"),
        ("registry", "it has to begin with http:// or https://"),
        ("file:///etc/passwd", "it has to begin with http:// or https://"),
        ("http://", "it names no host"),
        ("http://:8081", "it names no host"),
        ("http://regi stry:8081", "it names no host"),
        ("http://registry:0", "0 is no port"),
        ("http://registry:port", "what follows its host is no port, a number from 1 to 65535"),
        ("http://registry:80810", "what follows its host is no port, a number from 1 to 65535"),
        ("http://a:1,http://b:1", "what follows its host is no port, a number from 1 to 65535"),
        ("http://[::1", "what follows its host is no port, a number from 1 to 65535"),
    ],
)
def test_a_registry_has_an_address_of_the_web(
    tmp_path: Path, address: str, wrong: str | None
) -> None:
    (tmp_path / "conf/sources").mkdir(parents=True)
    file = tmp_path / "conf/sources/shop.yml"
    file.write_text(f"{AVRO}options:\n  schema_registry: '{address}'\n")
    found: list[Mistake] = []
    try:
        load(tmp_path / "conf", environ={})
    except ConfigError as error:
        found = list(error.mistakes)
    said = f"expected an address like http://host:8081, got `{address}`: {wrong}"
    place = "`options.schema_registry`"
    assert found == ([Mistake(str(file), 5, f"{place}: {said}")] if wrong is not None else [])
