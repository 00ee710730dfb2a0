"""What a policy makes of a schema change, as far as that can be told without a table."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.config.modes import TargetContract
from ingest.config.settings import DdlPolicy
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    DropColumn,
    Lineage,
    LineageEntry,
    RecreateTable,
    RenameColumn,
    SchemaChange,
    lineage,
)
from ingest.names import SourceTable
from pipelines.gold import run as gold_run
from pipelines.ledger import store as store_module
from pipelines.ledger.decisions import Verdict, decide, enter, overtaken, review_retyped
from pipelines.ledger.drift import Drift
from pipelines.ledger.entries import Entry, Overtaken, added_again, lineage_of
from pipelines.ledger.review import effects_on
from pipelines.ledger.shared_columns import keyed_by_others, without_others
from pipelines.ledger.store import Ledger
from pipelines.targets.progress import Progress, Watermarks

TABLE = SourceTable("s", "shop", None, "crate")
DROP, ADD = (DropColumn("a"),), (AddColumn("a", "int"),)


def entry(id_: str, *pos: int, **given: Any) -> Entry:
    return Entry(id=id_, table=TABLE, pos=pos, **given)


def change(risk: str, effects: Any = ADD, *, proposed: Any = ADD, said: bool = True) -> Entry:
    return entry(
        "e",
        5,
        risk=risk,
        kind="drop_column" if effects == DROP else "add_column",
        effects=effects,
        proposed=proposed,
        statement="ALTER TABLE crate" if said else None,
    )


@pytest.mark.parametrize(
    ("known", "policy", "expected"),
    [
        (change("none"), {}, Verdict("ignored", "nothing to change in gold")),
        (change("additive"), {}, Verdict("approved")),
        (change("additive"), {"additive": "review"}, Verdict("pending")),
        (change("additive"), {"additive": "ignore"}, Verdict("ignored")),
        # Nothing of the table changes, so there is nothing to review.
        (change("additive", proposed=()), {"additive": "review"}, Verdict("approved")),
        (change("widening", (), proposed=()), {"widening": "review"}, Verdict("applied")),
        (change("destructive", DROP, proposed=DROP), {}, Verdict("pending")),
        (change("destructive", DROP, proposed=()), {}, Verdict("pending")),
        (change("destructive", DROP), {"destructive": "apply"}, Verdict("approved")),
        # That a column came no longer is not said by the source.
        (change("destructive", DROP, said=False), {"destructive": "apply"}, Verdict("pending")),
        (change("destructive", DROP, said=False), {"destructive": "ignore"}, Verdict("ignored")),
        (change("unparsed", ()), {}, Verdict("pending")),
    ],
)
def test_what_the_policy_says(known: Entry, policy: dict[str, Any], expected: Verdict) -> None:
    assert decide(known, DdlPolicy(**policy), []) == expected


def test_what_a_waiting_change_takes_away_is_not_added_before_it() -> None:
    gone = entry("d", 4, effects=DROP)
    why = "a is taken away by a change that waits itself"
    assert decide(change("additive"), DdlPolicy(), [gone]) == Verdict("pending", why)
    later = entry("d", 6, effects=DROP)
    assert decide(change("additive"), DdlPolicy(), [later]) == Verdict("approved")


def test_a_name_that_another_column_gives_up_waits_with_it() -> None:
    """What comes under it from then on is not what the target has there."""
    gone = entry("d", 4, effects=DROP, status="pending")
    moved = entry("r", 5, effects=(RenameColumn("b", "a"),), status="pending", risk="destructive")
    why = "a is taken away by a change that waits itself"
    assert decide(moved, DdlPolicy(destructive="apply"), [gone]) == Verdict("pending", why)
    hidden = [step for step in lineage_of([gone, moved]) if step.hidden]
    assert [(step.pos, step.change) for step in hidden] == [((5,), RenameColumn("b", "a"))]
    refused = replace(gone, status="rejected")
    assert [step.hidden for step in lineage_of([refused, moved])] == [True]
    swap = (RenameColumn("a", "b"), RenameColumn("b", "a"))
    assert [step.hidden for step in lineage_of([replace(moved, effects=swap)])] == [True, True]


@pytest.mark.parametrize("status", ["pending", "failed", "rejected", "ignored"])
def test_a_default_ends_with_a_drop_that_is_not_let_in(status: Any) -> None:
    """New rows of the source have no such column, though the target keeps it."""
    a = AddColumn("a", "int", "5")
    added = entry("a", 3, effects=(a,), status="applied")
    gone = entry("d", 4, effects=DROP, kind="drop_column", statement="ALTER …", status=status)
    drop = LineageEntry((4,), DropColumn("a"), hidden=True)
    assert lineage_of([added, gone]) == (LineageEntry((3,), a), drop)
    renamed = replace(gone, effects=(RenameColumn("A", "b"),))
    assert lineage_of([added, renamed])[1:] == (drop,)
    plain = replace(added, effects=ADD)
    assert len(lineage_of([plain, gone])) == 1, "there is no DEFAULT that could end"
    assert len(lineage_of([added, replace(gone, statement=None)])) == 1, "nobody said so"


def test_a_column_dropped_and_added_if_it_does_not_exist_waits_as_another() -> None:
    added = entry("a", 3, effects=(AddColumn("a", "int", "5"),), status="applied")
    guarded = AddColumn("a", "int", if_not_exists=True)
    both = entry("d", 4, effects=(*DROP, guarded), statement="ALTER …")
    hidden = [LineageEntry((4,), DropColumn("a"), True), LineageEntry((4,), guarded, True)]
    assert list(lineage_of([added, both]))[1:] == hidden


def test_a_column_that_waits_is_not_taken_for_another_of_its_name() -> None:
    gone = entry("d", 4, effects=DROP, status="pending")
    again = entry("a", 5, effects=ADD, status="pending")
    moved = entry("r", 6, effects=(RenameColumn("a", "b"),), risk="destructive")
    why = "what it renames is brought by a change that waits itself"
    found = decide(moved, DdlPolicy(destructive="apply"), [gone, again])
    assert found == Verdict("pending", why)
    assert decide(moved, DdlPolicy(destructive="apply"), [again]) == Verdict("approved")


def test_what_is_decided_late_is_of_todays_names() -> None:
    """MODIFY a, then RENAME a TO n and ADD a: the first is of `n`."""
    later = [
        LineageEntry((7,), RenameColumn("id", "uid")),
        LineageEntry((7,), RenameColumn("a", "n")),
        LineageEntry((8,), AddColumn("a", "int")),
    ]
    columns, keys = {"uid": "bigint", "n": "string", "a": "int"}, ["uid"]

    def effects(change: AlterColumnType) -> tuple[SchemaChange, ...]:
        return effects_on([change], columns, keys, exclude=[], later=later)

    assert effects(AlterColumnType("a", "int")) == (AlterColumnType("a", "int"),)
    other_key = (AlterColumnType("id", "string"), ChangeKey(("uid",)))
    assert effects(AlterColumnType("id", "string")) == other_key
    newer = [LineageEntry((9,), AlterColumnType("n", "bigint"))]
    again = effects_on([AlterColumnType("n", "int")], columns, keys, exclude=[], later=newer)
    assert again == ()


def test_an_approval_overtakes_what_waits_for_columns_that_it_ends() -> None:
    gone, renamed = entry("d", 4, effects=DROP), entry("r", 4, effects=(RenameColumn("a", "b"),))
    again = entry("e", 5, effects=ADD)
    assert overtaken(again, [gone, renamed, again]) == [gone]
    settled = gone.with_status("superseded", why=Overtaken("e"))
    assert added_again(again, [settled]) == list(ADD)
    # Superseded by another, or for another reason, it is nothing of this one's.
    other = gone.with_status("superseded", why=Overtaken("x"))
    assert added_again(again, [other, gone.with_status("superseded", why="overtaken by e")]) == []


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([AlterColumnType("N", "bigint")], [AlterColumnType("N", "bigint", in_place=True)]),
        ([AlterColumnType("n", "string")], [AlterColumnType("n", "string")]),
        ([AlterColumnType("n", "int")], []),
        ([AlterColumnType("unknown", "int")], [AlterColumnType("unknown", "int")]),
        ([AddColumn("hidden", "int"), DropColumn("n")], [DropColumn("n")]),
        # A key stays, under whatever name, until another type tells rows apart anew.
        ([RenameColumn("id", "no"), DropColumn("no")], [RenameColumn("id", "no")]),
        # It goes where the same statement names another key.
        (
            [DropColumn("id"), ChangeKey(("n",))],
            [DropColumn("id"), ChangeKey(("n",))],
        ),
        ([DropColumn("id"), ChangeKey(("id",))], [ChangeKey(("id",))]),
        (
            [RenameColumn("id", "no"), AlterColumnType("no", "string")],
            [RenameColumn("id", "no"), AlterColumnType("no", "string"), ChangeKey(("no",))],
        ),
    ],
)
def test_effects_on_a_target(stated: list[SchemaChange], expected: list[SchemaChange]) -> None:
    found = effects_on(stated, {"id": "int", "n": "int"}, ["id"], exclude=["Hidden"])
    assert list(found) == expected


def test_what_failed_halfway_is_left_to_who_approves_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its column may have the new type, and no values yet."""
    again: list[Entry] = []
    effects = (AlterColumnType("a", "string"),)
    waiting = [
        entry(status, 5, status=status, effects=effects, proposed=(*DROP, *ADD))
        for status in ("pending", "failed", "rejected")
    ]
    ledger: Any = SimpleNamespace(
        entries={each.id: each for each in waiting},
        route=lambda _: SimpleNamespace(target="t"),
        warehouse=SimpleNamespace(exists=lambda *_: True),
    )
    decisions = "pipelines.ledger.decisions"
    monkeypatch.setattr(f"{decisions}.proposed_now", lambda *_: ())
    monkeypatch.setattr(f"{decisions}.review_again", lambda _, entries, __: again.extend(entries))
    review_retyped(ledger)
    assert [each.id for each in again] == ["pending"]


def test_what_a_killed_run_began_waits_until_its_target_has_progress() -> None:
    routes: list[Any] = [SimpleNamespace(columns={}, exclude=())]
    config = SimpleNamespace(route=lambda *_, **__: routes[-1])
    warehouse: Any = SimpleNamespace(config=config, exists=lambda _, target: target == "t")
    store = Ledger(warehouse, "s", progress_by_target={})
    began = [
        entry("drop", 5, target="t", status="approved", effects=DROP),
        # What comes for the new table waits for this one.
        entry("again", 6, target="t", status="approved", effects=(RecreateTable(),)),
        entry("gone", 7, target="nowhere", status="approved", effects=DROP),
        entry("pending", 8, target="t", effects=DROP),
    ]
    store._known = store_module._Known(began)

    def unfinished() -> list[str]:
        return [each.id for each in store.unfinished()]

    assert unfinished() == ["again", "gone"]
    progress = Progress(target="t", source="s", status="parked")
    store.progress_by_target["s", "t"] = progress
    assert unfinished() == ["again", "gone"]
    # The run that makes it knows who feeds it.
    store.bring_forward("t", {})
    assert unfinished() == ["drop", "again", "gone"]
    store._columns_sent.clear()
    known = replace(progress, watermarks={"shop.crate": Watermarks()})
    store.progress_by_target["s", "t"] = known
    assert unfinished() == ["drop", "again", "gone"]
    # The tables file does not name the table any more, and nothing would be done.
    routes.append(None)
    assert unfinished() == ["gone"]


@pytest.mark.parametrize(
    ("applied", "sequence", "refold"),
    [((2,), (), False), ((5,), (), True), ((2,), ("v",), True)],
)
def test_a_waiting_drop_below_what_was_applied_has_rows_folded_again(
    applied: Any, sequence: tuple[str, ...], refold: bool
) -> None:
    """With `sequence_by` what was applied may be anywhere in the log. The entry itself says so: a
    run that is killed before it folds the rows does not meet the statement again."""
    contract = TargetContract("scd1", ("id",), sequence)
    marks = {"shop.crate": Watermarks(applied=applied)}
    progress = Progress(target="t", source="s", contract=contract, watermarks=marks)
    warehouse: Any = SimpleNamespace(config=None)
    store = Ledger(warehouse, "s", progress_by_target={("s", "t"): progress})
    of_target = {"target": "t", "statement": "ALTER …"}
    default = (AddColumn("a", "int", "5"),)
    added = entry("a", 3, effects=default, status="applied", **of_target)
    gone = entry("d", 4, effects=DROP, risk="destructive", **of_target)
    store._known = store_module._Known([added])
    route: Any = SimpleNamespace(ddl=DdlPolicy())
    enter(store, [gone], route)
    assert (store.entries["d"].status, store.entries["d"].refold) == ("pending", refold)


def test_rows_wait_to_be_folded_until_the_tables_file_has_their_target_as_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be taken back there without a rebuild, and nothing else remembers these rows."""
    folded: list[str] = []
    monkeypatch.setattr(gold_run, "backfill", lambda _, route: folded.append(route.target))
    monkeypatch.setattr(store_module, "write_entries", lambda _, entries: list(entries))
    store, made = _with_rows_to_fold(monkeypatch)

    def fold(route: Any, resting: Any = (), **more: Any) -> tuple[list[str], bool]:
        folded.clear()
        store.progress_by_target["s", "t"] = replace(made, **more)
        monkeypatch.setattr(store, "route", lambda _: route)
        gold_run._fold_late(store, resting)
        return folded.copy(), store.entries["d"].refold

    route = SimpleNamespace(target="t", source="s", contract=made.contract)
    assert fold(None) == ([], True)
    assert fold(SimpleNamespace(target="other", source="s", contract=None)) == ([], True)
    soft = made.contract._replace(deletes="soft") if made.contract else None
    assert fold(SimpleNamespace(target="t", source="s", contract=soft)) == ([], True)
    assert fold(route, outdated="decoding") == ([], True)
    assert fold(route, resting={("s", "t")}) == ([], True)
    assert fold(route) == (["t"], False)


def test_what_data_shows_of_a_renamed_table_came_under_any_of_its_names() -> None:
    asked: list[str] = []

    def sql(text: str) -> Any:
        asked.append(text)
        return SimpleNamespace(collect=lambda: [("c", [0, 1, 20])])

    warehouse = SimpleNamespace(name=lambda *_: "silver.cdc", session=SimpleNamespace(sql=sql))
    names = (TABLE, TABLE._replace(table="chest"))
    known: Any = SimpleNamespace(
        warehouse=warehouse, names=lambda _: names, of=lambda _: [], lineage=lambda _: ()
    )
    route: Any = SimpleNamespace(target="t", columns={}, exclude=())
    [new] = Drift(known, TABLE, route).new_columns({}, wanted={"c": "int"})
    assert new.pos == (0, 1, 20)
    assert all(f"'{name.table}'" in asked[0] for name in names)


def _with_rows_to_fold(monkeypatch: pytest.MonkeyPatch) -> tuple[Ledger, Progress]:
    """A ledger whose target `t` has rows to be folded again for its entry `d`, and the target's
    progress. A route has, as its `contract`, what the tables file asks for."""
    monkeypatch.setattr(gold_run, "made_otherwise", lambda route, made: route.contract != made)
    contract = TargetContract("scd1", ("id",), (), "hard")
    store = Ledger(SimpleNamespace(), "s", progress_by_target={})  # type: ignore[arg-type]
    waits = entry("d", 4, effects=DROP, target="t", refold=True, version=1)
    store._known = store_module._Known([waits])
    return store, Progress(target="t", source="s", contract=contract)


def test_an_entry_that_could_not_be_written_is_written_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its target is parked for the error; the source goes on, and its statement comes no more."""
    written: list[str] = []

    def write(_: Any, entries: Any) -> list[Entry]:
        if not written and len(entries) == 1:
            raise OSError("no space is left")
        written.extend(each.id for each in entries)
        return list(entries)

    monkeypatch.setattr(store_module, "write_entries", write)
    warehouse: Any = SimpleNamespace(config=None)
    store = Ledger(warehouse, "s")
    store._known = store_module._Known([])
    added = entry("a", 3, effects=ADD, status="approved")
    for each in (entry("d", 2), added):
        store.stage_entry(each)
    with pytest.raises(OSError, match="no space"):
        store.save_entry(added)
    store.save_staged()
    assert written == ["d", "a"]
    store.save_staged()
    assert written == ["d", "a"]


def test_a_key_that_another_source_table_was_given() -> None:
    one, two = (SourceTable("s", "shop", None, name) for name in ("one", "two"))
    entries: dict[SourceTable, list[Entry]] = {one: [], two: []}
    store: Any = SimpleNamespace(
        source="s",
        progress=lambda target: None,
        columns_sent=lambda target: {one: {"id"}, two: {"id"}} if target == "t" else {},
        first_name=lambda table: table,
        of=lambda table: entries[table],
    )
    assert not keyed_by_others(store, two, "t")
    rekeyed = Entry(id="k", table=one, target="t", effects=(ChangeKey(("id", "k")),))
    entries[one] = [rekeyed]
    assert not keyed_by_others(store, two, "t")
    entries[one] = [replace(rekeyed, status="applied")]
    assert keyed_by_others(store, two, "t")
    assert not keyed_by_others(store, two, "other")
    # Once it has followed, what it names counts again.
    entries[two] = [replace(rekeyed, table=two, status="applied")]
    assert not keyed_by_others(store, two, "t")


def test_columns_stay_while_another_source_table_of_the_target_has_them() -> None:
    one, two = (SourceTable("s", "shop", None, name) for name in ("one", "two"))
    gone: dict[SourceTable, Lineage] = {one: (), two: ()}
    progress = Progress(
        target="t",
        source="s",
        watermarks={"shop.one": Watermarks(), "shop.two": Watermarks()},
        tables={one[1:]: 1, two[1:]: 1},
        unsent={"shop.two": ("only",)},
    )
    store: Any = SimpleNamespace(
        source="s",
        progress={"t": progress}.get,
        columns_sent=lambda target: {},
        first_name=lambda table: table,
        lineage=lambda table: gone[table],
    )
    columns = {"a": "int", "b": "bigint", "c": "int", "only": "int"}
    proposed = (
        *(DropColumn("a"), RenameColumn("b", "d"), DropColumn("only")),
        # A new generation of a column is for all.
        *(DropColumn("c"), AddColumn("c", "string")),
    )
    effects = (*proposed[:3], AlterColumnType("c", "string"))
    changed = Entry(id="e", table=one, pos=(5,), target="t", effects=effects)

    def left(entry: Entry = changed) -> tuple[ColumnChange, ...]:
        return without_others(store, entry, proposed, columns=columns)

    assert left() == (AddColumn("d", "bigint"), *proposed[2:])
    gone[two] = lineage([((4,), DropColumn("A"), False), ((4,), RenameColumn("b", "d"), False)])
    assert left() == proposed
    # A table that feeds the target alone does as it likes.
    gone[two] = ()
    assert left(replace(changed, target="other")) == proposed
    # What was approved, and finished by another run, goes no further than that.
    approved = replace(changed, target="other", status="approved", proposed=(AddColumn("d"),))
    assert left(approved) == (AddColumn("d", "bigint"), *proposed[3:])
    assert left(replace(approved, proposed=proposed)) == proposed
    # One whose first changes come in this very run has what it sends.
    store.progress = {}.get
    store.columns_sent = lambda target: {one: {"a", "b"}, two: {"a"}}
    assert left() == proposed[1:]
    gone[two] = lineage([((4,), DropColumn("a"), False)])
    assert left() == proposed
