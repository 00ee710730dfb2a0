"""Names that columns and tables were given since: what the configuration says of them holds, what
waits is decided in any order, and what comes late is read as it was meant."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.project import Project, canal, canal_ddl, project_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
T0 = 1_700_000_000_000
SECRET = "a secret of sixteen"
TABLES = """
source: canal
defaults: {ddl: {destructive: review}}
tables:
- {from: 'shop.*'}
- {from: shop.hidden, exclude: [note, Straße]}
- {from: shop.unseen, exclude: [note]}
- {from: 'shop.taken*', exclude: [note]}
- {from: shop.masked, columns: {ssn: {mask: hash}}, ddl: {destructive: apply}}
- {from: shop.moved, sequence_by: [v], ddl: {destructive: apply}}
- {from: shop.placed, sequence_by: [v]}
- {from: shop.added, ddl: {additive: review, destructive: apply}}
- {from: shop.late, ddl: {destructive: apply}}
- {from: shop.late_drop, ddl: {destructive: apply}}
- {from: shop.retyped, ddl: {destructive: apply}}
- {from: 'shop.side_*', target: side, exclude: [note]}
"""
TEXTS = ("note", "remark", "a", "straße")


def sent(
    table: str,
    type_: str,
    at: int,
    old: dict[str, Any] | None = None,
    *,
    key: str = "id",
    **row: Any,
) -> Any:
    """A change as Canal sends it, `at` a place of the source's log."""
    types = {name: "varchar(20)" if name in TEXTS else "int" for name in row}
    texts = {name: None if value is None else str(value) for name, value in row.items()}
    before = None if old is None else {name: str(value) for name, value in old.items()}
    return canal(table, type_, texts, es=T0 + at, id_=at, old=before, types=types, keys=[key])


def statement(table: str, at: int, text: str) -> Any:
    """A schema change as Canal sends it: a statement, or the clauses of an ALTER TABLE."""
    whole = text if "TABLE" in text else f"ALTER TABLE {table} {text}"
    return canal_ddl(table, whole, es=T0 + at, id_=at)


BATCHES = (
    [
        sent("hidden", "INSERT", 1, id=1, n=1, note="hush", straße="hush"),
        statement("unseen", 1, "RENAME COLUMN note TO remark"),
        sent("unseen", "INSERT", 2, id=1, n=1, remark="hush"),
        *(
            sent(table, "INSERT", 1, id=1, n=1, note="hush", remark="own")
            for table in ("taken", "taken_too")
        ),
        sent("masked", "INSERT", 1, id=1, ssn=5),
        sent("moved", "INSERT", 1, id=1, v=10, n=1),
        sent("placed", "INSERT", 1, id=1, v=10, n=1),
        sent("twice", "INSERT", 1, id=1, c=3),
        sent("gone", "INSERT", 1, id=1, c=3),
        sent("added", "INSERT", 1, id=1),
        sent("kept", "INSERT", 1, id=1, c=6),
        sent("kept_new", "INSERT", 1, id=1, c=6),
        sent("retyped", "INSERT", 1, id=1, a="12"),
        sent("away", "INSERT", 1, id=1, n=5),
        sent("one", "INSERT", 1, id=1),
        sent("two", "INSERT", 1, id=1),
        statement("one", 2, "RENAME TABLE shop.one TO shop.one_b"),
        statement("two", 2, "RENAME TABLE shop.two TO shop.two_b"),
        sent("side_a", "INSERT", 1, id=1, n=1, note="hush"),
        sent("side_b", "INSERT", 2, id=2, n=2, note="hush"),
        sent("anew", "INSERT", 1, id=1, code=5),
        sent("anew", "INSERT", 2, id=2, code=5),
        sent("late", "INSERT", 1, id=1, c=3),
        sent("late_drop", "INSERT", 1, id=1, b=2, c=3),
    ],
    [
        statement("hidden", 5, "RENAME COLUMN note TO remark, ADD COLUMN x int"),
        sent("hidden", "INSERT", 6, id=2, n=2, remark="hush", x=1),
        statement("taken", 5, "DROP COLUMN remark, RENAME COLUMN note TO remark"),
        sent("taken", "INSERT", 6, id=2, n=2, remark="hush"),
        statement("taken_too", 5, "DROP COLUMN remark"),
        statement("taken_too", 6, "RENAME COLUMN note TO remark"),
        sent("taken_too", "INSERT", 7, id=2, n=2, remark="hush"),
        statement("masked", 5, "CHANGE ssn nin int"),
        sent("masked", "INSERT", 6, id=2, nin=7),
        statement("moved", 5, "RENAME COLUMN v TO w"),
        sent("moved", "UPDATE", 6, {"n": 1}, id=1, w=5, n=2),
        sent("moved", "UPDATE", 7, {"n": 2}, id=1, w=20, n=3),
        statement("placed", 5, "RENAME COLUMN v TO w"),
        sent("placed", "UPDATE", 6, {"n": 1}, id=1, w=5, n=2),
        sent("placed", "UPDATE", 7, {"n": 2}, id=1, w=20, n=3),
        statement("twice", 5, "RENAME COLUMN c TO d"),
        statement("twice", 6, "RENAME COLUMN d TO e"),
        sent("twice", "INSERT", 7, id=2, e=4),
        statement("gone", 5, "RENAME COLUMN c TO d"),
        statement("gone", 6, "DROP COLUMN d"),
        statement("added", 5, "ADD COLUMN c int DEFAULT 7"),
        statement("added", 6, "RENAME COLUMN c TO d"),
        *(
            message
            for table in ("kept", "kept_new")
            for message in (
                statement(table, 5, "DROP COLUMN c"),
                statement(table, 6, "ADD COLUMN c int"),
                sent(table, "UPDATE", 7, {"id": 1}, id=1, c=60),
            )
        ),
        statement("retyped", 5, "MODIFY a int"),
        statement("retyped", 7, "RENAME COLUMN a TO n"),
        sent("retyped", "INSERT", 8, id=3, n=1),
        statement("away", 5, "RENAME TABLE shop.away TO shop.further"),
        sent("further", "INSERT", 6, id=2, n=6),
        statement("further", 7, "DROP COLUMN n"),
        sent("further", "INSERT", 8, id=3),
        statement("one_b", 5, "RENAME TABLE shop.one_b TO shop.one_c, shop.two_b TO shop.two_c"),
        sent("one_c", "INSERT", 6, id=9),
        sent("two_c", "INSERT", 6, id=8),
        statement("side_a", 5, "RENAME COLUMN note TO remark"),
        sent("side_a", "INSERT", 6, id=3, n=3, remark="hush"),
        statement("side_b", 6, "ADD COLUMN remark int"),
        statement("anew", 5, "DROP TABLE anew"),
        statement("anew", 6, "CREATE TABLE anew (id int, code int PRIMARY KEY)"),
        sent("anew", "INSERT", 7, key="code", id=1, code=5),
        sent("anew", "INSERT", 8, key="code", id=1, code=6),
        statement("late", 6, "RENAME COLUMN d TO e"),
        sent("late", "INSERT", 7, id=2, e=4),
        statement("late_drop", 6, "RENAME COLUMN b TO c"),
        sent("late_drop", "INSERT", 7, id=2, c=4),
    ],
    [
        sent("retyped", "INSERT", 3, id=2, a="odd"),
        sent("retyped", "UPDATE", 9, {"n": "odd"}, id=2, n=5),
        statement("late", 5, "RENAME COLUMN c TO d"),
        statement("late_drop", 5, "DROP COLUMN c"),
        sent("added", "INSERT", 7, id=2, d=1),
        sent("side_b", "INSERT", 7, id=4, n=4, note="hush"),
    ],
)


def done(project: Project, *arguments: str) -> str:
    """What a command printed that ended well."""
    answer = project.ingest(*arguments)
    assert answer.code == 0, answer.out + answer.err
    return answer.out


def records(project: Project, *arguments: str) -> list[dict[str, Any]]:
    """The rows of a command."""
    return [json.loads(line) for line in done(project, "--json", *arguments).splitlines()]


def decide(project: Project, verb: str, table: str, words: str) -> None:
    """Decide on the waiting schema change of a table whose statement has some words."""
    waiting = [
        entry
        for entry in records(project, "ddl", "list")
        if entry["table"] == table and entry["status"] == "pending"
    ]
    [id_] = [entry["id"] for entry in waiting if words in (entry["statement"] or "")]
    done(project, "ddl", verb, id_)


class Played(NamedTuple):
    """What stands at the end: the rows of each target, what waits, the open rejects, the targets
    that are not what history makes, and all that a view of history says."""

    rows: dict[str, list[dict[str, Any]]]
    waiting: set[tuple[str, str]]
    rejects: list[str]
    differing: list[str]
    history: str


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All of it in one warehouse."""
    with project_in(tmp_path_factory.mktemp("renamed")) as project:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("MASKS", SECRET)
            _play(project)
            rows = {
                target: records(project, "sql", f"SELECT * FROM gold.{target} ORDER BY id, _pos")
                for target in EXPECTED
            }
            entries = records(project, "ddl", "list")
            waiting = {
                (entry["table"], entry["statement"])
                for entry in entries
                if entry["status"] in ("pending", "failed")
            }
            rejects = [
                r["code"] for r in records(project, "rejects", "list") if r["status"] == "open"
            ]
            differing = [t for t in EXPECTED if project.ingest("reconcile", t).code]
            for target in ("shop_hidden", "shop_masked", "side"):
                done(project, "rebuild", target)
            differing += [t for t in EXPECTED if project.ingest("reconcile", t).code]
            history = "".join(
                done(project, "--json", "sql", f"SELECT * FROM history.{target}")
                for target in ("shop_hidden", "shop_unseen", "side", "shop_taken")
            )
    return Played(rows, waiting, rejects, differing, history)


def _play(project: Project) -> None:
    files = "files: {path: 'landing/*.jsonl'}"
    project.write("conf/sources/canal.yml", f"name: canal\nformat: canal\norder: source\n{files}\n")
    project.write("conf/tables/canal.yml", TABLES)
    project.write("conf/ingest.yml", "mask_secret: env:MASKS\n")
    _land(project, 1)
    done(project, "run")
    for table in ("one", "two"):
        decide(project, "approve", table, "RENAME")
    _land(project, 2)
    done(project, "run")
    for target in ("shop_taken", "shop_taken_too"):
        rows = records(project, "sql", f"SELECT id, remark FROM gold.{target} ORDER BY id")
        assert rows == [{"id": 1, "remark": "own"}, {"id": 2, "remark": None}]
    decide(project, "approve", "taken", "DROP")
    decide(project, "approve", "taken_too", "DROP")
    decide(project, "approve", "taken_too", "RENAME")
    decide(project, "approve", "placed", "RENAME")
    decide(project, "approve", "twice", "RENAME COLUMN d TO e")
    decide(project, "approve", "twice", "RENAME COLUMN c TO d")
    decide(project, "approve", "gone", "DROP")
    decide(project, "approve", "gone", "RENAME")
    decide(project, "approve", "added", "ADD")
    for table in ("kept", "kept_new"):
        decide(project, "reject", table, "DROP")
    decide(project, "approve", "kept_new", "ADD")
    decide(project, "approve", "away", "RENAME")
    for table in ("one", "two"):
        decide(project, "approve", table, "RENAME")
    decide(project, "approve", "anew", "CREATE")
    decide(project, "approve", "anew", "")
    _land(project, 3)
    done(project, "run")


def _land(project: Project, number: int) -> None:
    lines = "".join(f"{json.dumps(message)}\n" for message in BATCHES[number - 1])
    project.write(f"landing/{number}.jsonl", lines)


def hashed(value: str) -> str:
    """What stands in place of a masked value."""
    return hmac.new(SECRET.encode(), value.encode(), hashlib.sha256).hexdigest()


EXPECTED: dict[str, list[dict[str, Any]]] = {
    "shop_hidden": [{"id": 1, "n": 1, "x": None}, {"id": 2, "n": 2, "x": 1}],
    "shop_unseen": [{"id": 1, "n": 1}],
    "shop_taken": [{"id": 1, "n": 1}, {"id": 2, "n": 2}],
    "shop_taken_too": [{"id": 1, "n": 1}, {"id": 2, "n": 2}],
    "shop_masked": [{"id": 1, "nin": hashed("5")}, {"id": 2, "nin": hashed("7")}],
    "shop_moved": [{"id": 1, "w": 20, "n": 3}],
    "shop_placed": [{"id": 1, "w": 20, "n": 3}],
    "shop_twice": [{"id": 1, "e": 3}, {"id": 2, "e": 4}],
    "shop_gone": [{"id": 1}],
    "shop_added": [{"id": 1, "d": 7}, {"id": 2, "d": 1}],
    "shop_kept": [{"id": 1, "c": 6}],
    "shop_kept_new": [{"id": 1, "c": 60}],
    "shop_retyped": [{"id": 1, "n": 12}, {"id": 2, "n": 5}, {"id": 3, "n": 1}],
    "shop_away": [{"id": 1, "n": 5}, {"id": 2, "n": 6}, {"id": 3, "n": None}],
    "shop_one": [{"id": 1}, {"id": 9}],
    "shop_two": [{"id": 1}, {"id": 8}],
    "side": [{"id": number, "n": number} for number in (1, 2, 3, 4)],
    "shop_anew": [{"id": 1, "code": 5}, {"id": 1, "code": 6}],
    "shop_late": [{"id": 1, "e": 3}, {"id": 2, "e": 4}],
    "shop_late_drop": [{"id": 1, "c": 2}, {"id": 2, "c": 4}],
}


@pytest.mark.parametrize("target", EXPECTED)
def test_rows(played: Played, target: str) -> None:
    found = [
        {name: value for name, value in row.items() if not name.startswith("_")}
        for row in played.rows[target]
    ]
    assert found == EXPECTED[target]


def test_what_waits(played: Played) -> None:
    """What no decision was taken on: of a table whose rename waited, what came under its new name
    is asked for once that is decided."""
    assert played.waiting == {
        ("kept", "ALTER TABLE kept ADD COLUMN c int"),
        ("away", "ALTER TABLE further DROP COLUMN n"),
    }


def test_nothing_is_rejected(played: Played) -> None:
    assert played.rejects == []


def test_history_makes_the_same(played: Played) -> None:
    assert played.differing == []


def test_history_hides_what_is_excluded(played: Played) -> None:
    assert '"id":2' in played.history.replace(" ", "")
    assert "hush" not in played.history
