"""What silver has of a table reaches its target, whatever became of the tables file in between."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.project import Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("frugal")

SHOP = "name: shop\nformat: canal\norder: source\nfiles:\n  path: landing/*.jsonl\n"
T0 = 1_700_000_000_000
TYPES = {"id": "int", "name": "varchar(20)"}
ONE, BOTH = "shop.orders_00", "shop.orders_0?"


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Project:
    made = Project(tmp_path, capsys.readouterr)
    made.write("conf/sources/shop.yml", SHOP)
    return made


def led(project: Project, *entries: Mapping[str, Any]) -> None:
    """The tables file with these entries."""
    listed = [f"  - {{{', '.join(f'{k}: {v!r}' for k, v in e.items())}}}" for e in entries]
    project.write("conf/tables/shop.yml", "\n".join(["source: shop", "tables:", *listed, ""]))


def put(table: str, id_: int, name: str, *, at: int, was: str | None = None) -> dict[str, Any]:
    """The row `id_`, new or, where it was something, changed, at second `at`."""
    return canal(
        table,
        "INSERT" if was is None else "UPDATE",
        {"id": str(id_), "name": name},
        old=None if was is None else {"name": was},
        es=T0 + 1000 * at,
        id_=at,
        types=TYPES,
    )


def run(project: Project, name: str, *messages: Any) -> None:
    """A run with these messages, which parks nothing."""
    if messages:
        project.land(f"{name}.jsonl", messages)
    answer = project.ingest("run", "--json")
    assert answer.code == 0, answer.err


def rows(project: Project, target: str, columns: str = "id, name") -> list[tuple[Any, ...]]:
    query = f"SELECT {columns} FROM gold.{target} ORDER BY id"
    return [tuple(row.values()) for row in project.ingest("sql", query, "--json").records]


def differ(project: Project, target: str) -> list[dict[str, Any]]:
    """What `reconcile` finds."""
    answer = project.ingest("reconcile", target, "--json")
    return [record for record in answer.records if record["kind"] not in ("reconciled", "summary")]


def nothing_new(project: Project) -> None:
    """A run after which there was nothing to do."""
    answer = project.ingest("run", "--json")
    assert [record for record in answer.records if record["kind"] == "table"] == []


def test_a_table_that_is_led_to_an_existing_target_brings_what_it_had(project: Project) -> None:
    led(project, {"from": ONE, "target": "orders"})
    run(project, "1", put("orders_00", 1, "a", at=1), put("orders_01", 2, "b", at=2))
    assert rows(project, "orders") == [(1, "a")]
    led(project, {"from": BOTH, "target": "orders"})
    run(project, "2")
    assert rows(project, "orders") == [(1, "a"), (2, "b")]
    nothing_new(project)


def test_it_brings_them_with_the_next_changes_too(project: Project) -> None:
    led(project, {"from": ONE, "target": "orders"})
    run(project, "1", put("orders_00", 1, "a", at=1), put("orders_01", 2, "b", at=2))
    led(project, {"from": BOTH, "target": "orders"})
    run(project, "2", put("orders_00", 3, "c", at=3), put("orders_01", 4, "d", at=4))
    assert rows(project, "orders") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


@pytest.mark.parametrize("type_", [1, 2, "append"])
def test_a_table_that_was_out_for_a_while_brings_what_it_missed(
    project: Project, type_: int | str
) -> None:
    options = {"target": "orders", "stored_as_scd_type": type_}
    led(project, {"from": BOTH, **options})
    run(project, "1", put("orders_00", 1, "a", at=1), put("orders_01", 2, "b", at=2))
    led(project, {"from": ONE, **options})
    run(project, "2", put("orders_00", 3, "c", at=3), put("orders_01", 2, "B", at=4, was="b"))
    run(project, "3", put("orders_01", 4, "d", at=5), put("orders_00", 5, "e", at=6))
    led(project, {"from": BOTH, **options})
    run(project, "4")
    found = rows(project, "orders")
    if type_ == 1:
        assert found == [(1, "a"), (2, "B"), (3, "c"), (4, "d"), (5, "e")]
    else:
        assert sorted(found) == [(1, "a"), (2, "B"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]
    nothing_new(project)


def test_the_only_table_of_a_target_that_was_out_for_a_while(project: Project) -> None:
    led(project, {"from": "shop.*"})
    run(project, "1", put("pens", 1, "a", at=1), put("cups", 1, "x", at=1))
    led(project, {"from": "shop.cups"})
    run(project, "2", put("pens", 1, "b", at=2, was="a"), put("cups", 2, "y", at=2))
    run(project, "3", put("pens", 2, "c", at=3))
    led(project, {"from": "shop.*"})
    run(project, "4", put("cups", 3, "z", at=4))
    assert rows(project, "shop_pens") == [(1, "b"), (2, "c")]
    assert rows(project, "shop_cups") == [(1, "x"), (2, "y"), (3, "z")]
    nothing_new(project)


def test_what_comes_while_a_rename_waits(project: Project) -> None:
    led(project, {"from": "shop.pens"})
    run(project, "1", put("pens", 1, "a", at=1))
    run(project, "2", canal_ddl("pens", "RENAME TABLE pens TO quills", es=T0 + 2000, id_=2))
    run(project, "3", put("quills", 1, "b", at=3, was="a"), put("quills", 2, "c", at=4))
    assert rows(project, "shop_pens") == [(1, "a")]
    [entry] = project.ingest("ddl", "list", "--status", "pending", "--json").records
    assert project.ingest("ddl", "approve", entry["id"]).code == 0
    run(project, "4")
    assert rows(project, "shop_pens") == [(1, "b"), (2, "c")]
    nothing_new(project)


def test_what_comes_to_one_shard_while_its_rename_waits(project: Project) -> None:
    led(project, {"from": BOTH, "target": "orders"})
    run(project, "1", put("orders_00", 1, "a", at=1), put("orders_01", 2, "b", at=1))
    run(project, "2", canal_ddl("orders_00", "RENAME TABLE orders_00 TO t", es=T0 + 2000, id_=2))
    run(project, "3", put("t", 1, "A", at=3, was="a"), put("orders_01", 3, "c", at=4))
    # A straggler of before the rename.
    run(project, "4", put("orders_00", 4, "d", at=1))
    [entry] = project.ingest("ddl", "list", "--status", "pending", "--json").records
    assert project.ingest("ddl", "approve", entry["id"]).code == 0
    run(project, "5")
    assert rows(project, "orders") == [(1, "A"), (2, "b"), (3, "c"), (4, "d")]
    nothing_new(project)
