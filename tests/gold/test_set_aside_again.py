"""What is set aside, and comes again: in a batch that is applied once more, for another reason, or
although somebody dismissed it. Gold and its rejects tell the same as history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors import TableError
from ingest.sql.history.asof import at_pos
from pipelines.gold.known_targets import known_targets
from pipelines.gold.reconstruction import as_of
from pipelines.operations.dismissals import dismiss_all
from pipelines.operations.rebuild import rebuild
from pipelines.operations.reconcile import reconcile
from pipelines.operations.reset import reset_target
from pipelines.operations.retention import trim_target
from tests.support.merge_scenarios import START, Laboratory, Row, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

UNSENT = "__debezium_unavailable_value"


class Killed(BaseException):
    """Ends a run as a kill would: nobody handles it."""


def killed(*_: object, **__: object) -> None:
    raise Killed


def change(table: str, op: str, pos: int, after: Row | None, **more: Any) -> Row:
    source = {"connector": "mysql", "db": "merge", "table": table, "file": "bin.7", "pos": pos}
    source |= {"row": 0, "ts_ms": START + pos * 1000, "snapshot": "false"}
    return {"op": op, "before": None, "after": after, "source": source, **more}


class Lab(Laboratory):
    """One scenario in a warehouse of its own."""

    @classmethod
    def of(
        cls, spark: SparkSession, root: Path, name: str, batches: Iterable[list[Row]], **entry: Any
    ) -> Lab:
        folder = root / "scenario"
        folder.mkdir()
        for number, messages in enumerate(batches, 1):
            lines = "".join(json.dumps(message) + "\n" for message in messages)
            (folder / f"{number}.jsonl").write_text(lines)
        source = entry.pop("source", {})
        return cls(root, spark, [Scenario(name, folder, entry, source)])

    def step(self, number: int) -> None:
        self.land(number)
        self.decode()
        assert [each.error for each in self.merge() if each.error is not None] == []

    def declare(self, change_entry: Callable[[Row], object]) -> None:
        """Change the table's entry, and look at it all anew."""
        for file in (self._root / "conf/tables").glob("*.yml"):
            tables = json.loads(file.read_text())
            change_entry(tables["tables"][0])
            file.write_text(json.dumps(tables))
        self.__dict__.pop("config", None)
        self.begin_again()

    def publishing_transactions(self) -> Lab:
        for file in (self._root / "conf/tables").glob("*.yml"):
            tables = json.loads(file.read_text())
            file.write_text(json.dumps({**tables, "publish": "transaction"}))
        self.__dict__.pop("config", None)
        self.begin_again()
        return self

    def remake(self, name: str) -> None:
        rebuild(self.warehouse, known_targets(self.warehouse).fed[name])

    def as_history(self, name: str) -> bool:
        return reconcile(self.warehouse, known_targets(self.warehouse).fed[name]).right

    def aside(self, name: str) -> list[tuple[str, str]]:
        return [(row["code"], row["status"]) for row in self.rejects().get(name, [])]

    def values(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in columns) for row in self.rows(name)]


@pytest.mark.slow
def test_what_was_published_is_set_aside_for_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """The part of a batch below an open transaction comes again with it; the row that another
    source table brought meanwhile is no reason to set its first change aside."""
    a, b = "t_a", "t_b"
    partial = change(a, "u", 4, {"id": 2, "x": "moved", "y": UNSENT}) | {"before": {"id": 1}}
    opened = change(b, "c", 9, {"id": 9, "x": "o", "y": "o"}, transaction={"id": "t9"})
    end = {"status": "END", "id": "t9", "ts_ms": START + 9000, "event_count": 1}
    batches: list[list[Row]] = [
        [
            change(a, "c", 3, {"id": 1, "x": "a", "y": "a"}),
            partial,
            change(b, "c", 6, {"id": 1, "x": "b", "y": "b"}),
            opened,
        ],
        [end],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string", "y": "string"},
    ).publishing_transactions()
    published = [(1, "b", "b"), (2, "moved", "a")]
    lab.step(1)
    assert lab.values("t", "id", "x", "y") == published
    lab.step(2)
    assert lab.values("t", "id", "x", "y") == [*published, (9, "o", "o")]
    assert lab.aside("t") == [] and lab.as_history("t")


@pytest.mark.slow
def test_a_key_that_was_freed_before_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = "t_a", "t_b"
    moved = change(a, "u", 3, {"id": 1, "x": "moved"}) | {"before": {"id": 5, "x": "a"}}
    gone = change(b, "d", 4, None) | {"before": {"id": 1, "x": "b"}}
    batches = [
        [change(b, "c", 1, {"id": 1, "x": "b"}), change(a, "c", 2, {"id": 5, "x": "a"})],
        [moved, gone],
        [change(b, "c", 8, {"id": 8, "x": "more"})],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string"},
    )
    lab.step(1)
    lab.land(2)
    lab.decode()
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.gold.advance.try_again", killed)
        with pytest.raises(Killed):
            lab.merge()
    lab.begin_again()
    lab.step(3)
    assert lab.values("t", "id", "x") == [(1, "moved"), (8, "more")]
    assert lab.as_history("t")


@pytest.mark.slow
def test_a_change_that_waits_for_its_base_since_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for another row's key before. Whoever freed that was killed behind the reject."""
    a, b = "t_a", "t_b"
    batches = [
        [
            change(b, "c", 1, {"id": 1, "x": "b", "y": "b"}),
            change(a, "c", 2, {"id": 7, "x": "a", "y": "a"}),
            change(a, "u", 5, {"id": 1, "x": "new", "y": UNSENT}),
        ],
        [change(b, "d", 6, None) | {"before": {"id": 1, "x": "b", "y": "b"}}],
        [change(a, "c", 3, {"id": 1, "x": "old", "y": "y"})],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string", "y": "string"},
    )
    lab.step(1)
    assert lab.aside("t") == [("shard_key_conflict", "open")]
    lab.land(2)
    lab.decode()
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.ledger.decisions.settle_rest", killed)
        with pytest.raises(Killed):
            lab.merge()
    assert lab.aside("t") == [("no_base_image", "open")]
    lab.begin_again()
    lab.step(3)
    assert lab.values("t", "id", "x", "y") == [(1, "new", "y"), (7, "a", "a")]
    assert {status for _, status in lab.aside("t")} == {"resolved"} and lab.as_history("t")


@pytest.mark.slow
def test_an_append_target_grows_though_a_run_was_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [
        [change("t", "c", 1, {"id": 1, "x": 1})],
        [change("t", "c", 2, {"id": 2, "x": 3_000_000_000})],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        stored_as_scd_type="append",
        source={"columns": {"merge.t": {"id": "int", "x": "int"}}},
    )
    lab.step(1)
    lab.land(2)
    lab.decode()
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.apply.append.append.merge_sql", killed)
        with pytest.raises(Killed):
            lab.merge()
    lab.begin_again()
    lab.merge()
    lab.merge()
    assert lab.values("t", "id", "x") == [(1, 1), (2, 3_000_000_000)]


@pytest.mark.slow
def test_what_waits_says_what_it_waits_for_now(spark: SparkSession, tmp_path: Path) -> None:
    """A partial image without a base, and a value that does not fit, under other columns."""
    batches = [
        [
            change("t", "c", 1, {"id": 9, "n": "9", "m": "9", "y": "nine"}),
            change("t", "u", 5, {"id": 1, "n": "abc", "m": "1", "y": UNSENT}),
            change("t", "u", 6, {"id": 2, "n": "1", "m": "abc", "y": UNSENT}),
        ],
        [
            change("t", "c", 3, {"id": 1, "n": "3", "m": "3", "y": "base"}),
            change("t", "c", 4, {"id": 2, "n": "4", "m": "4", "y": "base"}),
        ],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        columns={"id": "int", "n": "string", "m": "int", "y": "string"},
        source={"keys": {"merge.t": ["id"]}},
    )
    lab.step(1)
    assert lab.aside("t") == [("no_base_image", "open"), ("type_mismatch", "open")]
    lab.declare(lambda entry: entry["columns"].update(n="int", m="string"))
    lab.remake("t")
    assert lab.aside("t") == [("type_mismatch", "open"), ("no_base_image", "open")]
    lab.step(2)
    assert lab.values("t", "id", "n", "m") == [(1, 3, "3"), (2, 1, "abc"), (9, 9, "9")]
    assert lab.aside("t") == [("type_mismatch", "open"), ("no_base_image", "resolved")]
    assert lab.as_history("t")


@pytest.mark.slow
def test_what_had_no_key_waits_for_what_it_lacks_with_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = "t_a", "t_b"
    batches = [
        [
            change(a, "c", 1, {"id": 1, "x": "a", "y": "a"}),
            change(b, "c", 2, {"id": 1, "x": "b", "y": "b"}),
            change(a, "u", 3, {"id": 2, "x": "partial", "y": UNSENT}),
        ],
        [change(a, "d", 5, None) | {"before": {"id": 1, "x": "a", "y": "a"}}],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"from": ["merge.t_*"]},
        stored_as_scd_type=2,
        columns={"id": "int", "x": "string", "y": "string"},
    )
    lab.step(1)
    assert lab.aside("t") == [("no_key", "open")] * 3
    lab.declare(lambda entry: entry.update(keys=["id"]))
    lab.merge()
    codes = [("no_key", "resolved"), ("shard_key_conflict", "open"), ("no_base_image", "open")]
    assert lab.aside("t") == codes
    lab.step(2)
    assert lab.values("t", "x", "_current") == [("a", False), ("b", True)]
    assert lab.as_history("t")


@pytest.mark.slow
def test_what_is_dismissed_enters_no_row(spark: SparkSession, tmp_path: Path) -> None:
    a, b = "t_a", "t_b"
    moved = change(a, "u", 6, {"id": 1, "x": "moved"}) | {"before": {"id": 5, "x": "a"}}
    baseless = change(a, "u", 8, {"id": 7, "x": "seven", "y": UNSENT})
    batches = [
        [change(a, "c", 1, {"id": 5, "x": "a"}), change(b, "c", 2, {"id": 1, "x": "b"})],
        [moved, baseless],
        [
            change(a, "u", 5, {"id": 5, "x": "late"}),
            change(a, "c", 7, {"id": 7, "x": "base", "y": "y"}),
        ],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string", "y": "string"},
    )
    lab.step(1)
    lab.step(2)
    codes = ("shard_key_conflict", "no_base_image")
    for code in codes:
        dismiss_all(lab.warehouse, source=None, code=code, by="me", why="seen")
    assert lab.as_history("t")
    lab.step(3)
    for _ in range(2):
        assert lab.values("t", "id", "x") == [(1, "b"), (5, "late"), (7, "base")]
        assert lab.aside("t") == [(code, "dismissed") for code in codes] and lab.as_history("t")
        lab.remake("t")


@pytest.mark.slow
def test_what_is_dismissed_stays_aside_though_it_fits_at_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [change("t", "c", 1, {"id": 1, "n": 1})],
        [change("t", "u", 2, {"id": 1, "n": 9_999_999_999})],
        [change("t", "c", 3, {"id": 2, "n": 9_999_999_999})],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        columns={"id": "int", "n": "int"},
        source={"keys": {"merge.t": ["id"]}},
    )
    lab.step(1)
    lab.step(2)
    dismiss_all(lab.warehouse, source=None, code="type_mismatch", by="me", why="seen")
    lab.declare(lambda entry: entry["columns"].update(n="bigint"))
    lab.step(3)
    for _ in range(2):
        assert lab.values("t", "id", "n") == [(1, 1), (2, 9_999_999_999)]
        assert lab.aside("t") == [("type_mismatch", "dismissed")] and lab.as_history("t")
        lab.remake("t")


@pytest.mark.slow
def test_a_key_belongs_at_each_moment_to_who_had_it_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It went from one source table to the other: `as-of` asks who has it now of no past moment."""
    batches = [
        [change("t_a", "c", 1, {"id": 1, "x": "a"}), change("t_b", "c", 2, {"id": 1, "x": "b"})],
        [change("t_a", "d", 5, None) | {"before": {"id": 1, "x": "a"}}],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string"},
    )

    def as_of_pos(pos: int) -> list[Any]:
        target = known_targets(lab.warehouse).fed["t"]
        with as_of(lab.warehouse, target, at_pos(f"[0,1,7,{pos}]")) as past:
            return [row["x"] for row in past.tried(lambda rows: past.typed(rows).collect())]

    lab.step(1)
    assert lab.values("t", "x") == [("a",)] and as_of_pos(2) == ["a"]
    lab.step(2)
    assert lab.values("t", "x") == [("b",)]
    assert [as_of_pos(pos) for pos in (1, 2, 5)] == [["a"], ["a"], ["b"]]


def of_table(table: str, op: str, pos: int, id_: int = 1) -> Row:
    """A change of a row that says which source table it is from."""
    image = {"id": id_, "x": table}
    if op == "d":
        return change(table, op, pos, None) | {"before": image}
    return change(table, op, pos, image)


THERE_AND_BACK = [
    *(of_table("t_a", "d", 5), of_table("t_b", "c", 6)),
    *(of_table("t_b", "d", 7), of_table("t_a", "c", 8)),
]


@pytest.mark.slow
def test_a_row_that_is_gone_again_claims_no_key(spark: SparkSession, tmp_path: Path) -> None:
    """Rows went from one source table to the other and back within a batch; one came to a key while
    the other had it, and went; of another the end came first. What is gone contests nothing, so
    nothing waits."""
    row = of_table
    batches = [
        [row("t_a", "c", 1), row("t_a", "c", 2, 2)],
        [*THERE_AND_BACK, row("t_b", "c", 9, 2)],
        [row("t_b", "d", 10, 2), row("t_b", "d", 4, 2)],
        [row("t_b", "c", 3, 2)],
    ]
    entry = {"keys": ["id"], "from": ["merge.t_*"], "columns": {"id": "int", "x": "string"}}
    kept: dict[str, Row] = {"rows": {}, "versions": {"stored_as_scd_type": 2}}
    held = {}
    for name, mode in kept.items():
        (tmp_path / name).mkdir()
        lab = Lab.of(spark, tmp_path / name, "t", batches, **entry, **mode)
        lab.step(1)
        lab.step(2)
        assert ("shard_key_conflict", "open") in lab.aside("t"), name
        lab.step(3)
        assert {status for _, status in lab.aside("t")} == {"resolved"}, name
        lab.step(4)
        assert {status for _, status in lab.aside("t")} == {"resolved"}, name
        assert lab.as_history("t"), name
        held[name] = lab.values("t", "id", "x", *(("_current",) if mode else ()))
    assert held["rows"] == [(1, "t_a"), (2, "t_a")]
    assert sorted(held["versions"]) == [
        (1, "t_a", False),
        (1, "t_a", True),
        (1, "t_b", False),
        (2, "t_a", True),
        (2, "t_b", False),
        (2, "t_b", False),
    ]


@pytest.mark.slow
def test_a_past_moment_has_the_row_that_had_the_key_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It went to the other source table and back within a batch; a row that is gone is marked."""
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        [[of_table("t_a", "c", 1)], THERE_AND_BACK],
        **{"keys": ["id"], "from": ["merge.t_*"], "deletes": "soft"},
        columns={"id": "int", "x": "string"},
    )
    lab.step(1)
    lab.step(2)
    assert lab.values("t", "x") == [("t_a",)]
    assert lab.aside("t") == [("shard_key_conflict", "resolved")] * 2
    target = known_targets(lab.warehouse).fed["t"]
    for pos, expected in ((4, "t_a"), (6, "t_b"), (8, "t_a")):
        with as_of(lab.warehouse, target, at_pos(f"[0,1,7,{pos}]")) as past:
            found = past.tried(lambda rows: past.typed(rows).collect())
        assert [row["x"] for row in found if row["_deleted_at"] is None] == [expected]


@pytest.mark.slow
def test_of_rows_that_are_marked_as_deleted_the_last_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two source tables had the key, one after the other; the changes of the first come late."""
    first = [change("t_a", "c", 1, {"id": 1, "x": "a"}), change("t_a", "d", 2, None)]
    last = [change("t_b", "c", 5, {"id": 1, "x": "b"}), change("t_b", "d", 6, None)]
    for gone in (first[1], last[1]):
        gone["before"] = {"id": 1}
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        [last, first],
        **{"keys": ["id"], "from": ["merge.t_*"], "deletes": "soft"},
        columns={"id": "int", "x": "string"},
    )
    lab.step(1)
    lab.step(2)
    assert lab.values("t", "id", "x") == [(1, "b")]
    assert lab.aside("t") == [] and lab.as_history("t")
    target = known_targets(lab.warehouse).fed["t"]
    with as_of(lab.warehouse, target, at_pos("[0,1,7,6]")) as past:
        [row] = past.tried(lambda rows: past.typed(rows).collect())
    assert row["x"] == "b"


@pytest.mark.slow
def test_a_key_that_one_table_gave_up_and_another_took_before_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row was moved by a part of it, whose base is not set aside when the batch comes again."""
    partial = change("t_a", "u", 4, {"id": 2, "x": "moved", "y": UNSENT}) | {"before": {"id": 1}}
    batch = [
        change("t_a", "c", 3, {"id": 1, "x": "a", "y": "a"}),
        partial,
        change("t_b", "c", 6, {"id": 1, "x": "b", "y": "b"}),
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        [[change("t_b", "c", 1, {"id": 6, "x": "s", "y": "s"})], batch],
        **{"keys": ["id"], "from": ["merge.t_*"]},
        columns={"id": "int", "x": "string", "y": "string"},
    )
    lab.step(1)
    lab.land(2)
    lab.decode()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("pipelines.gold.run.record_progress", killed)
        lab.merge()
    lab.begin_again()
    assert [each.error for each in lab.merge() if each.error is not None] == []
    assert lab.values("t", "id", "x", "y") == [(1, "b", "b"), (2, "moved", "a"), (6, "s", "s")]
    assert lab.aside("t") == [] and lab.as_history("t")


@pytest.mark.slow
def test_a_target_made_anew_knows_where_its_history_was_trimmed(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = change("t", "u", 3, {"id": 1, "x": UNSENT, "y": "late"})
    batches = [
        [change("t", "c", 1, {"id": 1, "x": "one", "y": "y"})],
        [change("t", "u", 5, {"id": 1, "x": "two", "y": "y"})],
        [change("t", "c", 9, {"id": 2, "x": "z", "y": "z"})],
        [late],
    ]
    lab = Lab.of(
        spark,
        tmp_path,
        "t",
        batches,
        columns={"id": "int", "x": "string", "y": "string"},
        source={"keys": {"merge.t": ["id"]}},
    )
    for number in (1, 2, 3):
        lab.step(number)
    target = known_targets(lab.warehouse).fed["t"]
    assert trim_target(lab.warehouse, target, 0, now=time.time() + 1_000) == 1
    reset_target(lab.warehouse, target.source, "t")
    assert [each.error for each in lab.merge() if each.error is not None] == []
    with pytest.raises(TableError, match="was trimmed up to position"):
        as_of(lab.warehouse, target, at_pos("[0,1,7,2]"))
    lab.step(4)
    assert lab.values("t", "id", "x", "y") == [(1, "two", "y"), (2, "z", "z")]
    assert lab.aside("t") == [("late_beyond_horizon", "open")] and lab.as_history("t")
