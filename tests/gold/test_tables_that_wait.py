"""A table that was dropped and created again waits for a decision: nothing lets its new rows in
before, whatever is folded from history meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.operations import redecode as redecoding
from tests.support.project import Project, canal, canal_ddl, project_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

T0 = 1_700_000_000_000
SOURCE = "name: canal\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = """
source: canal
tables:
- {from: 'shop.*'}
- {from: 'shop.side_*', target: side}
"""


class Killed(BaseException):
    """Ends the command as a kill would: nobody handles it."""


def row(table: str, at: int, *, type_: str = "INSERT", **values: int) -> Any:
    types = dict.fromkeys(values, "int")
    texts = {name: str(value) for name, value in values.items()}
    old = {"n": "0"} if type_ == "UPDATE" else None
    return canal(table, type_, texts, es=T0 + at, id_=at, old=old, types=types)


def created_again(table: str, at: int) -> list[Any]:
    texts = (f"DROP TABLE {table}", f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
    return [canal_ddl(table, text, es=T0 + at + i, id_=at + i) for i, text in enumerate(texts)]


def rows(project: Project) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for target in ("side", "shop_alone"):
        query = f"SELECT id, n FROM gold.{target} ORDER BY id"
        answer = project.ingest("--json", "sql", query)
        found[target] = [(r["id"], r["n"]) for r in answer.records]
    return found


def done(project: Project, *arguments: str) -> str:
    answer = project.ingest(*arguments)
    assert answer.code == 0, answer.out + answer.err
    return answer.out


def settled(project: Project) -> dict[str, list[tuple[int, int]]]:
    """The rows, which are what history makes."""
    for target in ("side", "shop_alone"):
        done(project, "reconcile", target)
    return rows(project)


@pytest.mark.slow
def test_nothing_lets_them_in(spark: SparkSession, tmp_path: Path) -> None:
    with project_in(tmp_path) as project:
        project.write("conf/sources/canal.yml", SOURCE)
        project.write("conf/tables/canal.yml", TABLES)
        first = [
            row("side_a", 1, id=1, n=1),
            row("side_b", 2, id=2, n=2),
            row("alone", 3, id=3, n=3),
        ]
        project.land("1.jsonl", [*first, row("side_a", 4, id=4, n=4)])
        done(project, "run")
        # Another generation was let in before: what it emptied stays empty.
        project.land("2.jsonl", [*created_again("alone", 5), row("alone", 7, id=5, n=5)])
        done(project, "run")
        for entry in json_rows(project, "ddl", "list"):
            done(project, "ddl", "approve", entry["id"])
        done(project, "run")
        before = {"side": [(1, 1), (2, 2), (4, 4)], "shop_alone": [(5, 5)]}
        assert settled(project) == before
        # One target alone: how far the source was looked through says nothing of it.
        project.land("2b.jsonl", [row("side_b", 8, type_="UPDATE", id=2, n=20)])
        done(project, "run", "--table", "side")
        project.land(
            "3.jsonl",
            [
                *(m for table in ("side_b", "alone") for m in created_again(table, 10)),
                row("side_b", 12, id=6, n=6),
                row("alone", 12, id=7, n=7),
                row("side_a", 13, type_="UPDATE", id=1, n=10),
            ],
        )
        done(project, "run", "--table", "side")
        assert waiting(project) == {"side": 1, "shop_alone": 1}
        before["side"][:2] = [(1, 10), (2, 20)]
        for target in ("side", "shop_alone"):
            done(project, "rebuild", target)
        assert settled(project) == before
        # Killed behind its commit, and done again, after a run; silver is ahead of gold.
        project.land("4.jsonl", [row("side_a", 14, type_="UPDATE", id=4, n=40)])
        done(project, "silver")
        killed_redecode(project, at="_reached")
        assert project.ingest("run").code == 1
        done(project, "redecode", "--source", "canal")
        before["side"][2] = (4, 40)
        assert settled(project) == before
        # Once more, killed before its commit.
        project.land("5.jsonl", [row("side_a", 15, type_="UPDATE", id=4, n=41)])
        done(project, "run")
        killed_redecode(project, at="_numbering")
        done(project, "redecode", "--source", "canal")
        before["side"][2] = (4, 41)
        assert settled(project) == before
        # Whatever was looked through since.
        assert waiting(project) == {"side": 1, "shop_alone": 1}
        project.land("6.jsonl", [row("side_b", 16, id=8, n=8), row("alone", 16, id=9, n=9)])
        for entry in json_rows(project, "ddl", "list"):
            if entry["status"] == "pending":
                done(project, "ddl", "approve", entry["id"])
        done(project, "run")
        after = {"side": [(1, 10), (4, 41), (6, 6), (8, 8)], "shop_alone": [(7, 7), (9, 9)]}
        assert settled(project) == after


def waiting(project: Project) -> dict[str, int]:
    """How many changes are not in each target, as `status` counts them."""
    return {row["table"]: row["waiting"] for row in json_rows(project, "status") if "table" in row}


def killed_redecode(project: Project, *, at: str) -> None:
    """A redecode that gets as far as one of its steps."""

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(redecoding, at, die)
        project.ingest("redecode", "--source", "canal")


def json_rows(project: Project, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(project, "--json", *arguments).splitlines()]
