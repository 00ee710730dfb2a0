"""Rows that are written anew from history, and keys that change hands: what comes late afterwards
is told from what comes on time as it was before, and no change is in neither rows nor rejects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.project import Project, canal, canal_ddl, project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
T0 = 1_700_000_000_000
CANAL = """
source: canal
tables:
- {from: shop.regions, keys: [id]}
- {from: shop.approved, ddl: {destructive: review}}
- {from: shop.versions, stored_as_scd_type: 2, ddl: {destructive: apply}}
- {from: shop.ordered}
- {from: shop.spared, ddl: {destructive: review}}
- {from: shop.dropped, ddl: {destructive: apply}}
- {from: 'shop.freed_*', target: freed}
- {from: 'shop.both_*', target: both, ddl: {destructive: review}}
- {from: shop.waited, ddl: {destructive: review}}
- {from: shop.changed, ddl: {destructive: apply}}
- {from: shop.defaulted}
"""
DEBEZIUM = """
source: debezium
tables:
- {from: shop.bases, target: bases, keys: [id], columns: &ab {id: int, a: int, b: int},
   deletes: soft}
- {from: 'shop.pair_*', target: pair, keys: [id], columns: *ab}
- {from: 'shop.odd_*', target: odd, keys: [id], columns: &x {id: int, x: int}}
- {from: 'shop.held_*', target: held, keys: [id], columns: *x}
- {from: 'shop.parked_*', target: parked, keys: [id], columns: *x}
- {from: 'shop.kept_*', target: kept, keys: [id], columns: *x, stored_as_scd_type: 2}
"""
TYPES = {"region": "varchar(9)", "x": "varchar(9)", "text": "varchar(9)", "wide": "bigint"}
HIDDEN = "__debezium_unavailable_value"


def sent(table: str, type_: str, at: int, old: dict[str, Any] | None = None, **row: Any) -> Any:
    """A change as Canal sends it, `at` a place of the source's log."""
    types = {name: TYPES.get(name, "int") for name in row}
    texts = {name: None if value is None else str(value) for name, value in row.items()}
    before = None if old is None else {name: str(value) for name, value in old.items()}
    return canal(table, type_, texts, es=T0 + at, id_=at, old=before, types=types)


def statement(table: str, at: int, clauses: str) -> Any:
    """A schema change as Canal sends it."""
    return canal_ddl(table, f"ALTER TABLE {table} {clauses}", es=T0 + at, id_=at)


def change(table: str, op: str, at: int, before: Any, after: Any) -> Any:
    """A change as Debezium sends it."""
    place = {"file": "bin.000007", "pos": at, "row": 0, "ts_ms": T0 + at}
    source = {"connector": "mysql", "db": "shop", "table": table, **place}
    return {"op": op, "before": before, "after": after, "source": source}


BATCHES = (
    [
        sent("regions", "INSERT", 1, id=1, region="A"),
        sent("regions", "UPDATE", 5, {"region": "A"}, id=1, region="B"),
        sent("approved", "INSERT", 1, id=1, region="A"),
        sent("approved", "UPDATE", 5, {"region": "A"}, id=1, region="B"),
        sent("versions", "INSERT", 5, id=1, x="1", n=1),
        sent("versions", "UPDATE", 9, {"n": 1}, id=1, x="1", n=2),
        sent("ordered", "INSERT", 1, id=1, v=10),
        sent("ordered", "DELETE", 2, id=1, v=50),
        sent("spared", "INSERT", 1, id=1, x="1", n=5),
        sent("spared", "INSERT", 2, id=2, x="1", n=5),
        sent("spared", "UPDATE", 3, {"x": "1"}, id=2, x="1", n=5),
        sent("dropped", "INSERT", 1, id=1, x="1", n=5),
        sent("freed_a", "INSERT", 1, id=1, n=5),
        sent("both_a", "INSERT", 1, id=1, region="X"),
        sent("both_b", "INSERT", 2, id=1, region="Y"),
        sent("waited", "INSERT", 1, id=1, n=5),
        sent("changed", "INSERT", 1, id=1, text="abc"),
        sent("defaulted", "INSERT", 1, id=1),
        sent("defaulted", "INSERT", 5, id=2, n=None),
        sent("freed_b", "INSERT", 3, id=1, n=7),
        change("bases", "c", 1, None, {"id": 1, "a": 1, "b": 1}),
        change("bases", "d", 5, {"id": 1, "a": 1, "b": 1}, None),
        change("bases", "u", 9, None, {"id": 1, "a": 9, "b": HIDDEN}),
        change("pair_a", "c", 1, None, {"id": 1, "a": 1, "b": 1}),
        change("pair_b", "u", 6, None, {"id": 1, "a": 9, "b": HIDDEN}),
        change("odd_a", "c", 1, None, {"id": 1, "x": 1}),
        change("odd_b", "c", 2, None, {"id": 1, "x": 1}),
        change("odd_b", "u", 6, None, {"id": 1, "x": "bad"}),
        change("held_a", "c", 1, None, {"id": 1, "x": 1}),
        change("held_b", "c", 2, None, {"id": 1, "x": 2}),
        change("parked_a", "c", 1, None, {"id": 1, "x": 1}),
        change("parked_b", "c", 2, None, {"id": 1, "x": 2}),
        change("kept_a", "c", 1, None, {"id": 1, "x": 1}),
        change("kept_b", "c", 2, None, {"id": 1, "x": 2}),
    ],
    [
        statement("approved", 10, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, region)"),
        statement("versions", 10, "DROP COLUMN n"),
        statement("both_a", 10, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, region)"),
        statement("waited", 5, "RENAME COLUMN n TO wide"),
        statement("waited", 6, "MODIFY wide bigint"),
        sent("waited", "INSERT", 7, id=2, wide=3_000_000_000),
        statement("changed", 5, "CHANGE text number int"),
        statement("defaulted", 9, "ADD COLUMN n int DEFAULT 7"),
        sent("spared", "UPDATE", 9, {"n": 5}, id=1, x="1", n="abc"),
        sent("dropped", "UPDATE", 7, {"x": "1"}, id=1, x="2", n="abc"),
        sent("freed_a", "UPDATE", 5, {"id": 1, "n": 5}, id=2, n=3_000_000_000),
        change("pair_a", "d", 7, {"id": 1, "a": 1, "b": 1}, None),
        change("odd_a", "d", 7, {"id": 1, "x": 1}, None),
        change("parked_a", "d", 7, {"id": 1, "x": 1}, None),
    ],
    [
        statement("spared", 10, "DROP COLUMN n"),
        statement("dropped", 8, "DROP COLUMN n"),
    ],
    [
        sent("regions", "INSERT", 1, id=1, region="A"),
        sent("approved", "INSERT", 1, id=1, region="A"),
        sent("versions", "UPDATE", 7, {"x": "1"}, id=1, x="2", n=1),
        sent("ordered", "INSERT", 3, id=1, v=20),
        sent("spared", "UPDATE", 5, {"x": "1"}, id=1, x="7", n=5),
        sent("waited", "INSERT", 8, id=3, wide=1),
        change("bases", "c", 7, None, {"id": 1, "a": 7, "b": 7}),
        change("kept_a", "d", 12, {"id": 1, "x": 1}, None),
        change("pair_b", "c", 3, None, {"id": 1, "a": 0, "b": 2}),
    ],
)


def land(project: Project, number: int) -> None:
    """A batch, a file a source."""
    for source in ("canal", "debezium"):
        file = project.folder / "landing" / source / f"{number}.jsonl"
        file.parent.mkdir(exist_ok=True)
        mine = [m for m in BATCHES[number - 1] if ("op" in m) == (source == "debezium")]
        file.write_text("".join(f"{json.dumps(message)}\n" for message in mine))


def done(project: Project, *arguments: str) -> str:
    """What a command printed that ended well."""
    answer = project.ingest(*arguments)
    assert answer.code == 0, answer.out + answer.err
    return answer.out


def approve(project: Project, table: str) -> None:
    """Let the one schema change in that waits for a table."""
    waiting = _records(project, "ddl", "list")
    [id_] = [e["id"] for e in waiting if e["table"].endswith(table) and e["status"] == "pending"]
    done(project, "ddl", "approve", id_)


class Played(NamedTuple):
    """What stands at the end: the rows of each target, the codes of its open rejects before and
    after all are tried again, how that ended, and the targets that are not what history makes."""

    rows: dict[str, list[dict[str, Any]]]
    waiting: list[dict[str, list[str]]]
    replayed: int
    differing: list[str]


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All of it in one warehouse: the batches, and between them what writes rows anew."""
    with project_in(tmp_path_factory.mktemp("rewritten")) as project:
        _play(project)
        rows = {
            target: _records(project, "sql", f"SELECT * FROM gold.{target} ORDER BY id, _pos")
            for target in EXPECTED
        }
        waiting = [_waiting(project)]
        replayed = project.ingest("rejects", "replay").code
        waiting.append(_waiting(project))
        differing = [target for target in EXPECTED if project.ingest("reconcile", target).code]
    return Played(rows, waiting, replayed, differing)


def _play(project: Project) -> None:
    for source in ("canal", "debezium"):
        files = f"files: {{path: 'landing/{source}/*.jsonl'}}"
        text = f"name: {source}\nformat: {source}\norder: source\n{files}\n"
        project.write(f"conf/sources/{source}.yml", text)
    project.write("conf/tables/canal.yml", CANAL)
    project.write("conf/tables/debezium.yml", DEBEZIUM)
    land(project, 1)
    done(project, "run")
    land(project, 2)
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr("pipelines.gold.advance.try_again", _fails_for("parked"))
        assert project.ingest("run").code == 1
    done(project, "run")
    for table in ("approved", "both_a", "waited"):
        approve(project, table)
    land(project, 3)
    done(project, "run")
    approve(project, "spared")
    tables = CANAL.replace("keys: [id]}", "keys: [id, region]}")
    tables = tables.replace("shop.ordered}", "shop.ordered, sequence_by: [v]}")
    project.write("conf/tables/canal.yml", tables)
    project.write("conf/tables/debezium.yml", DEBEZIUM.replace("deletes: soft", "deletes: hard"))
    done(project, "rebuild", "shop_regions", "--yes")
    done(project, "rebuild", "shop_ordered")
    done(project, "rebuild", "bases")
    done(project, "rebuild", "kept")
    assert _waiting(project)["kept"] == ["shard_key_conflict"]
    land(project, 4)
    done(project, "run")


def _records(project: Project, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(project, "--json", *arguments).splitlines()]


def _waiting(project: Project) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for reject in _records(project, "rejects", "list"):
        if reject["status"] == "open":
            found.setdefault(reject["target"], []).append(reject["code"])
    return found


def _fails_for(target: str) -> Any:
    from pipelines.gold.shared_keys import try_again

    def failing(ledger: Any, route: Any, *about: Any, **more: Any) -> Any:
        if route.target == target:
            raise RuntimeError("cut off")
        return try_again(ledger, route, *about, **more)

    return failing


EXPECTED: dict[str, list[dict[str, Any]]] = {
    "shop_regions": [{"id": 1, "region": "B"}],
    "shop_approved": [{"id": 1, "region": "B"}],
    "shop_versions": [
        {"id": 1, "x": "1", "_current": False},
        {"id": 1, "x": "2", "_current": False},
        {"id": 1, "x": "1", "_current": True},
    ],
    "shop_ordered": [],
    "shop_spared": [{"id": 1, "x": "1"}, {"id": 2, "x": "1"}],
    "shop_dropped": [{"id": 1, "x": "2"}],
    "freed": [{"id": 1, "n": 7}, {"id": 2, "n": 3_000_000_000}],
    "both": [{"id": 1, "region": "X"}, {"id": 1, "region": "Y"}],
    "shop_waited": [
        {"id": 1, "wide": 5},
        {"id": 2, "wide": 3_000_000_000},
        {"id": 3, "wide": 1},
    ],
    "shop_changed": [{"id": 1, "text": "abc"}],
    "shop_defaulted": [{"id": 1, "n": 7}, {"id": 2, "n": None}],
    "bases": [{"id": 1, "a": 9, "b": 7}],
    "kept": [{"id": 1, "x": 1, "_current": False}, {"id": 1, "x": 2, "_current": True}],
    "pair": [{"id": 1, "a": 9, "b": 2}],
    "odd": [{"id": 1, "x": 1}],
    "held": [{"id": 1, "x": 1}],
    "parked": [{"id": 1, "x": 2}],
}
OPEN = {
    "odd": ["type_mismatch"],
    "held": ["shard_key_conflict"],
}


@pytest.mark.parametrize("target", EXPECTED)
def test_rows(played: Played, target: str) -> None:
    names = list(EXPECTED[target][0]) if EXPECTED[target] else []
    found = [{name: row[name] for name in names} for row in played.rows[target]]
    assert found == EXPECTED[target]


def test_rejects(played: Played) -> None:
    """What no row has is told of; of a key that another table's row holds it is tried again, and
    stays."""
    assert (played.waiting, played.replayed) == ([OPEN, OPEN], 0)


def test_history_makes_the_same(played: Played) -> None:
    assert played.differing == []
