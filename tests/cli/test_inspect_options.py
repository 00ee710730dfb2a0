"""`ingest inspect` takes on the command line what a source's YAML may say, validated alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project

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
        *(*given, "--default-table", "items", "--keys", "shop.items: [id]", "--columns", types),
        *("--time-zone", "+08:00", "--option", "sequence_unit=milliseconds"),
    )
    assert (row["db"], row["schema"], row["table"]) == ("shop", "main", "items")
    assert (row["key"], row["after"]["made"]) == ({"id": "1"}, "2024-01-01T19:04:05Z")


def test_it_adds_to_what_the_source_says(project: Project) -> None:
    given = ("--source", "depot", "--order", "arrival")
    row = inspected(project, *given, "--columns", "depot.bins: {made: datetime}")
    assert (row["db"], row["table"], row["key"]) == ("depot", "bins", {"id": "1"})
    assert row["warnings"] == ["untyped"]  # of id alone


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
