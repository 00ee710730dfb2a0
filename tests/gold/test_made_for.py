"""A tables file that wants targets otherwise than they were made, for a while: nothing is done to
them that could not be taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl

T0 = 1_700_000_000_000
SOURCE = "name: m\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl', order: path}\n"
TABLES = """source: m
defaults: {{ddl: {{destructive: apply}}}}
tables:
- {{from: shop.versions, target: versions{scd}}}
- {{from: shop.renamed, target: renamed}}
- {{from: shop.marked, target: marked, columns: {{id: int, n: {type}}}{soft}}}
- {{from: shop.ordered, target: ordered, columns: {{id: int, n: {type}}}{sequence}}}
- {{from: shop.masked, target: masked, columns: {{id: int, n: {type}, x: {mask}}}}}
- {{from: shop.plain, target: plain, columns: {{id: int, n: int}}}}
- {{from: shop.other}}
"""
MADE = {
    **{"scd": ", stored_as_scd_type: 2", "soft": ", deletes: soft", "sequence": ""},
    **{"type": "int", "mask": "string"},
}
WANTED = {
    **{"scd": "", "soft": "", "sequence": ", sequence_by: n"},
    **{"type": "bigint", "mask": "{type: string, mask: 'null'}"},
}
BACK = {**MADE, "type": "bigint"}


def _change(table: str, op: str, number: int, n: str, *, id_: int = 1) -> dict[str, Any]:
    types = {"id": "int", "n": "varchar(9)", "x": "varchar(9)"}
    row = {"id": str(id_), "n": n, "x": "x"}
    old = {"n": "0"} if op == "UPDATE" else None
    return canal(table, op, row, es=T0 + number * 1000, id_=number, old=old, types=types)


def _rows(project: Project, query: str) -> list[dict[str, Any]]:
    answer = project.ingest("sql", query, "--json")
    assert answer.code == 0, answer.err
    return answer.records


def _silver(project: Project) -> dict[str, list[str]]:
    """What of each source table silver has."""
    return {
        row["table"]: row["ns"]
        for row in _rows(
            project,
            "SELECT `table`, array_sort(collect_list(after['n'])) AS ns FROM silver.cdc "
            "WHERE kind = 'change' AND after IS NOT NULL GROUP BY 1",
        )
    }


@pytest.mark.slow
def test_what_a_target_was_made_for_guards_it(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", "retention: {bronze: 30 days, silver: 60 days}\n")
    project.write("conf/sources/m.yml", SOURCE)
    tables = project.write("conf/tables/m.yml", TABLES.format(**MADE))
    rename = "RENAME TABLE shop.renamed TO shop.renamed2"
    project.land(
        "1.jsonl",
        [
            *(_change("versions", "UPDATE" if n > 1 else "INSERT", n, str(n)) for n in (1, 2, 3)),
            _change("renamed", "INSERT", 4, "1"),
            canal_ddl("renamed2", rename, es=T0 + 5000, id_=5, type_="RENAME"),
            *(_change("renamed2", "UPDATE", 4 + n, str(n)) for n in (2, 3, 4)),
            _change("marked", "INSERT", 11, "1"),
            _change("marked", "INSERT", 12, "1", id_=2),
            _change("marked", "DELETE", 13, "1"),
            _change("ordered", "INSERT", 14, "100"),
            *(_change(table, "INSERT", 15, "1") for table in ("masked", "plain")),
            *(_change(table, "INSERT", 16, "abc", id_=2) for table in ("masked", "plain")),
        ],
    )
    assert project.ingest("run").code == 0
    assert project.ingest("run").code == 0
    old = "UPDATE silver.cdc SET decoded_at = decoded_at - INTERVAL 100 DAYS"
    assert project.ingest("sql", "--write", old).code == 0
    project.land("2.jsonl", [_change("other", "INSERT", 20, "1")])
    assert project.ingest("run").code == 0

    tables.write_text(TABLES.format(**WANTED))
    project.land("3.jsonl", [_change(t, "UPDATE", 21, "7") for t in ("ordered", "versions")])
    assert project.ingest("run").code == 1
    before = _silver(project)
    assert project.ingest("maintain").code == 0
    after = _silver(project)
    assert (before["versions"], after["versions"]) == (["1", "2", "3", "7"],) * 2
    assert (before["renamed2"], after["renamed2"]) == (["2", "3", "4"], ["4"])
    assert "renamed" not in after
    assert project.ingest("rejects", "replay").code in (0, 1)
    tried = _rows(project, "SELECT target, attempts FROM gold._rejects ORDER BY target")
    assert {row["target"]: row["attempts"] for row in tried} == {"masked": 0, "plain": 1}

    tables.write_text(TABLES.format(**BACK))
    project.land("4.jsonl", [_change("ordered", "UPDATE", 30, "8")])
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert _rows(project, "SELECT id, n, x FROM gold.masked ORDER BY id") == [
        {"id": 1, "n": 1, "x": "x"}
    ]
    assert _rows(project, "SELECT id, n FROM gold.ordered") == [{"id": 1, "n": 8}]
    marked = "SELECT id, n, _deleted_at IS NOT NULL AS gone FROM gold.marked ORDER BY id"
    assert _rows(project, marked) == [
        {"id": 1, "n": 1, "gone": True},
        {"id": 2, "n": 1, "gone": False},
    ]
    for target in ("marked", "ordered", "masked", "plain"):
        assert project.ingest("reconcile", target).code == 0, target
    assert project.ingest("rebuild", "versions").code == 0
    versions = _rows(project, "SELECT n FROM gold.versions ORDER BY _pos")
    assert [row["n"] for row in versions] == ["1", "2", "3", "7"]


@pytest.mark.slow
def test_versions_of_two_source_tables_never_share_a_key(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/m.yml", SOURCE)
    text = "source: m\ntables:\n- {{from: [shop.a, shop.b], target: two, keys: [{}], {}}}\n"
    versions = "stored_as_scd_type: 2"
    tables = project.write("conf/tables/m.yml", text.format("id, n", versions))
    project.land("1.jsonl", [_change("a", "INSERT", 1, "eu"), _change("b", "INSERT", 2, "us")])
    assert project.ingest("run").code == 0
    tables.write_text(text.format("id", versions))
    answer = project.ingest("rebuild", "two", "--yes")
    assert answer.code == 1
    assert "expected one source table to have key (1) of two, got shop.a and shop.b" in answer.err
    assert len(_rows(project, "SELECT id FROM gold.two WHERE _current")) == 2


@pytest.mark.slow
def test_rows_that_were_images_before_know_which_keys_were_given_up(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A late change of such a key makes no row of it."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/m.yml", SOURCE)
    kept = "source: m\ntables: [{{from: shop.moved, target: moved, stored_as_scd_type: {}}}]\n"
    project.write("conf/tables/m.yml", kept.format("append"))
    moved = _change("moved", "UPDATE", 5, "5", id_=2)
    moved["old"] = [{"id": "1"}]
    project.land("1.jsonl", [_change("moved", "INSERT", 1, "1"), moved])
    assert project.ingest("run").code == 0
    project.write("conf/tables/m.yml", kept.format("1"))
    assert project.ingest("rebuild", "moved", "--yes").code == 0
    project.land("2.jsonl", [_change("moved", "UPDATE", 3, "3")])
    assert project.ingest("run").code == 0
    assert _rows(project, "SELECT id, n FROM gold.moved") == [{"id": 2, "n": "5"}]
    assert project.ingest("reconcile", "moved").code == 0
