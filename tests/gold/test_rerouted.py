"""What silver has of a table reaches its target, whatever became of the tables file in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl, project_in

pytestmark = pytest.mark.slow
SHOP = "name: shop\nformat: canal\norder: source\nfiles:\n  path: landing/*.jsonl\n"
T0 = 1_700_000_000_000
TYPES = {"id": "int", "name": "varchar(20)"}
BOTH = "shop.orders_0?"


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


def rows(project: Project, target: str) -> list[tuple[Any, ...]]:
    query = f"SELECT id, name FROM gold.{target} ORDER BY id, name"
    return [tuple(row.values()) for row in project.ingest("sql", query, "--json").records]


ALL = (
    {"from": BOTH, "target": "orders"},
    {"from": "shop.lots_0?", "target": "lots"},
    {"from": "shop.versions_0?", "target": "versions", "stored_as_scd_type": 2},
    {"from": "shop.images_0?", "target": "images", "stored_as_scd_type": "append"},
    {"from": "shop.pens"},
    {"from": "shop.quills"},
    {"from": "shop.deals_0?", "target": "deals"},
    {"from": "shop.inks"},
)
COINS = {"from": "shop.coins", "stored_as_scd_type": 2}
SHARDED = ("lots", "versions", "images")


def without(*patterns: str) -> list[Mapping[str, Any]]:
    """The entries with but one shard of these patterns, or, where they have one table, none."""
    left: list[Mapping[str, Any]] = []
    for entry in ALL:
        if entry["from"] not in patterns:
            left.append(entry)
        elif "?" in entry["from"]:
            left.append({**entry, "from": entry["from"].replace("?", "0")})
    return left


def bare(message: dict[str, Any]) -> dict[str, Any]:
    """The message, naming no key."""
    return {**message, "pkNames": None}


def renamed(old: str, new: str) -> dict[str, Any]:
    return canal_ddl(old, f"RENAME TABLE {old} TO {new}", es=T0 + 2000, id_=2)


def inked(id_: int, name: str, *, called: str, at: int) -> dict[str, Any]:
    """A row of `inks`, whose column of names is called otherwise at first."""
    return canal(
        "inks",
        "INSERT",
        {"id": str(id_), called: name},
        es=T0 + 1000 * at,
        id_=at,
        types={"id": "int", called: "varchar(20)"},
    )


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each target after the last of five runs, and what a sixth did."""
    folder = tmp_path_factory.mktemp("rerouted")
    with project_in(folder) as project:
        project.write("conf/sources/shop.yml", SHOP)
        led(project, *without(BOTH, "shop.inks"), COINS)
        run(
            project,
            "1",
            *(put(f"orders_0{n}", n, "a", at=1) for n in (0, 1)),
            *(put(f"{name}_0{n}", n, "a", at=1) for name in SHARDED for n in (0, 1)),
            put("pens", 1, "a", at=1),
            put("quills", 1, "a", at=1),
            *(put(f"deals_0{n}", n, "a", at=1) for n in (0, 1)),
            inked(1, "a", called="label", at=1),
            canal_ddl("coins", "TRUNCATE TABLE coins", es=T0, id_=0, type_="TRUNCATE"),
            bare(put("coins", 1, "a", at=1)),
            bare(put("coins", 2, "a", at=1)),
        )
        led(
            project,
            *without(BOTH, "shop.pens", "shop.inks", *(f"shop.{name}_0?" for name in SHARDED)),
            COINS,
        )
        run(
            project,
            "2",
            *(put(f"{name}_00", 2, "b", at=2) for name in SHARDED),
            *(put(f"{name}_01", 1, "b", at=2, was="a") for name in SHARDED),
            put("pens", 1, "b", at=2, was="a"),
            renamed("quills", "feathers"),
            renamed("deals_00", "t"),
            canal_ddl(
                "inks", "ALTER TABLE inks CHANGE label name varchar(20)", es=T0 + 2000, id_=2
            ),
            inked(2, "b", called="name", at=3),
        )
        run(
            project,
            "3",
            *(put(f"{name}_0{n}", 3 + n, "c", at=3) for name in SHARDED for n in (0, 1)),
            put("pens", 2, "c", at=3),
            put("feathers", 1, "c", at=3, was="a"),
            put("feathers", 2, "c", at=4),
            put("t", 0, "c", at=3, was="a"),
            put("deals_01", 2, "c", at=3),
        )
        # A straggler of before the rename.
        run(project, "4", put("deals_00", 3, "d", at=1))
        waiting = project.ingest("ddl", "list", "--status", "pending", "--json").records
        assert project.ingest("ddl", "approve", *(row["id"] for row in waiting)).code == 0
        led(project, *ALL, {**COINS, "keys": ["id"]})
        run(project, "5", bare(put("coins", 1, "b", at=5, was="a")), put("images_01", 5, "e", at=5))
        (late,) = project.ingest("ddl", "list", "--status", "pending", "--json").records
        assert (late["target"], late["kind"]) == ("shop_inks", "rename_column")
        assert project.ingest("ddl", "approve", late["id"]).code == 0
        found = {
            target: rows(project, target)
            for target in (
                "orders",
                *SHARDED,
                "shop_pens",
                "shop_quills",
                "deals",
                "shop_coins",
                "shop_inks",
            )
        }
        found["open"] = [
            (row["code"],)
            for row in project.ingest("rejects", "list", "--json").records
            if row["status"] == "open"
        ]
        again = project.ingest("run", "--json").records
        found["again"] = [(row["table"],) for row in again if row["kind"] == "table"]
    return found


Played = dict[str, list[tuple[Any, ...]]]


def test_a_table_that_is_led_to_an_existing_target_brings_what_it_had(played: Played) -> None:
    assert played["orders"] == [(0, "a"), (1, "a")]


def test_a_table_that_was_out_for_a_while_brings_what_it_missed(played: Played) -> None:
    rest = [(2, "b"), (3, "c"), (4, "c")]
    assert played["lots"] == [(0, "a"), (1, "b"), *rest]
    assert played["versions"] == [(0, "a"), (1, "a"), (1, "b"), *rest]
    assert played["images"] == [(0, "a"), (1, "a"), (1, "b"), *rest, (5, "e")]


def test_the_only_table_of_a_target_that_was_out_for_a_while(played: Played) -> None:
    assert played["shop_pens"] == [(1, "b"), (2, "c")]


def test_what_comes_while_a_rename_waits(played: Played) -> None:
    assert played["shop_quills"] == [(1, "c"), (2, "c")]
    assert played["deals"] == [(0, "c"), (1, "a"), (2, "c"), (3, "d")]


def test_schema_changes_of_a_table_that_lived_in_silver_only(played: Played) -> None:
    assert played["shop_inks"] == [(1, "a"), (2, "b")]


def test_what_came_before_keys_were_set(played: Played) -> None:
    assert played["shop_coins"] == [(1, "a"), (1, "b"), (2, "a")]
    assert played["open"] == []


def test_a_further_run_has_nothing_to_do(played: Played) -> None:
    assert played["again"] == []
