"""Which types the columns of a target get, where the messages tell more than one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.config.routes import route
from ingest.config.settings import DdlPolicy
from ingest.config.sources import Source
from ingest.config.tables import Tables
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    RenameColumn,
    SchemaChange,
    lineage,
    schema_changes,
)
from ingest.ddl.parse import parse
from ingest.ddl.risks import Risk
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable
from ingest.sql.metadata import gold_names, renamed_in_gold, source_name, statement_in_gold
from pipelines.gold.column_warnings import misspelt_columns, untyped, untyped_columns
from pipelines.gold.plan import Feed
from pipelines.gold.reconstruction import types_of_today
from pipelines.gold.todays_columns import todays_columns
from pipelines.ledger.entries import Entry, Status
from pipelines.targets.progress import Progress, Watermarks
from pipelines.targets.table import wanted_columns

COWS = SourceTable("farm", "barn", None, "cows")


def _entry(change: SchemaChange, status: Status, *, risk: Risk, at: int = 7) -> Entry:
    pos = (0, 1, at)
    return Entry(id=f"e{at}", table=COWS, pos=pos, status=status, risk=risk, effects=(change,))


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        (("int",), "int"),
        (("int", "bigint"), "bigint"),
        (("bigint", "int"), "bigint"),
        (("decimal(20,0)", "bigint", "int"), "decimal(20,0)"),
        (("decimal(10,2)", "decimal(12,2)", "decimal(10,2)"), "decimal(12,2)"),
        # Neither holds the other's values: the last word counts.
        (("int", "string"), "string"),
        (("string", "int"), "int"),
    ],
)
def test_the_widest_type_that_came(types: tuple[str, ...], wanted: str) -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    came = [[ColumnType("n", type_, type_)] for type_ in types]
    assert wanted_columns(way, ("id",), came, images=[("id", "n")])["n"] == wanted


@pytest.mark.parametrize(
    ("held", "before", "status", "today"),
    [
        # Made before its type was declared, it gets the one that the change then changes.
        ("string", {"n": "int"}, "pending", "int"),
        ("string", {"n": "int"}, "rejected", "int"),
        ("string", {"n": "string"}, "pending", "string"),
        ("string", {}, "pending", "string"),
        # What has a type keeps it until the change is decided, and when it was refused.
        ("int", {"n": "string"}, "pending", "int"),
        ("bigint", {"n": "int"}, "rejected", "bigint"),
        ("string", {"n": "int"}, "applied", "bigint"),
    ],
)
def test_a_change_of_type_that_was_not_let_in(
    held: str, before: dict[str, str], status: Status, today: str
) -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    entry = _entry(AlterColumnType("n", "bigint", in_place=False), status, risk="widening")
    found = todays_columns(
        way,
        {"id": "int", "n": "bigint"},
        [entry],
        held={"id": "int", "n": held},
        lineages={},
        keys=["id"],
        before=lambda _: before,
    )
    assert found == {"id": "int", "n": today}


@pytest.mark.parametrize(
    ("held", "before", "status", "today"),
    [
        # The messages have another column under the name by now, which is not let in.
        ("int", {"n": "int"}, "pending", "int"),
        ("int", {"n": "int"}, "rejected", "int"),
        # The target is gone.
        (None, {"n": "int"}, "pending", "int"),
        (None, {}, "pending", "string"),
        ("int", {"n": "int"}, "applied", "string"),
    ],
)
def test_a_name_that_another_column_has_by_now(
    held: str | None, before: dict[str, str], status: Status, today: str
) -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    changes = ((7, DropColumn("N")), (8, AddColumn("n", "string")))
    entries = [_entry(change, status, risk="destructive", at=at) for at, change in changes]
    found = todays_columns(
        way,
        {"id": "int", "n": "string"},
        entries,
        held={"id": "int", "n": held} if held is not None else {},
        lineages={},
        keys=["id"],
        before=lambda _: before,
    )
    assert found == {"id": "int", "n": today}


def test_names_of_the_configuration_are_spelt_as_the_messages_do() -> None:
    declared = Tables.model_validate(
        {"source": "farm", "tables": [{"from": "*", "columns": {"WEIGHT": "int", "Hay": "int"}}]}
    )
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    came = [[ColumnType("PRICE", "decimal(10,2)", "decimal(10,2)")]]
    found = wanted_columns(way, ("id",), came, images=[("id", "price", "weight")])
    expected = {"id": "string", "price": "decimal(10,2)", "weight": "int", "Hay": "int"}
    assert found == expected


def test_columns_of_one_row_that_differ_only_in_case_are_refused() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    with pytest.raises(TableError, match="`price` and `Price` differ only in case"):
        wanted_columns(way, ("id",), [], images=[("id", "price", "Price")])


def test_two_spellings_that_never_meet_in_a_row_are_one_column() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    found = wanted_columns(way, ("id",), [], images=[("id", "price"), ("id", "Price")])
    assert found == {"id": "string", "price": "string"}


def test_a_column_without_a_name_is_refused() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    with pytest.raises(TableError, match="expected a name for every column, got one without"):
        wanted_columns(way, ("id",), [], images=[("id", "")])


def test_columns_called_like_those_that_gold_adds_step_aside() -> None:
    names = ("_pos", "_pos_source", "_POS_source_source", "_source", "_source_table", "_pos_x", "a")
    found = gold_names(names)
    assert found == (
        *("_pos_source", "_pos_source_source", "_POS_source_source_source"),
        *("_source_source", "_source_table_source", "_pos_x", "a"),
    )
    assert tuple(map(source_name, found)) == names
    assert [renamed_in_gold(name) for name in found] == [True] * 5 + [False] * 2
    # Spark takes the long s for an s, too.
    assert gold_names(["_po\u017f"]) == ("_po\u017f_source",)


def test_the_configuration_calls_them_by_their_names_at_the_source() -> None:
    entry = {"from": "*", "columns": {"_pos": "int"}, "exclude": ["_Current"], "keys": ["_source"]}
    declared = Tables.model_validate({"source": "farm", "tables": [entry]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    assert (way.columns, way.exclude, way.keys) == (
        {"_pos_source": "int"},
        ("_Current_source",),
        ("_source_source",),
    )


def test_schema_changes_are_of_the_columns_as_gold_calls_them() -> None:
    said = parse(
        "ALTER TABLE t ADD COLUMN _pos int, RENAME COLUMN a TO _current, ADD PRIMARY KEY (_source)"
    )
    assert schema_changes(statement_in_gold(said).clauses, {}) == (
        AddColumn("_pos_source", "int"),
        RenameColumn("a", "_current_source"),
        ChangeKey(("_source_source",)),
    )
    made = statement_in_gold(parse("CREATE TABLE t (_pos int, a int, PRIMARY KEY (_pos))"))
    assert [column.name for column in made.columns] == ["_pos_source", "a"]
    assert made.clauses[0].keys == ("_pos_source",)


def test_who_has_declared_types_is_not_told_to_declare_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table is as it was until it is made anew, and the run that meets it says so."""
    progress = SimpleNamespace(
        untyped=("id", "Due", "paid"),
        watermarks={"db.bill": None, "db.bill.old": None},
        tables={("db", None, "bill"): 4, ("db", None, "bill.old"): 2},
    )
    monkeypatch.setattr(
        "pipelines.gold.column_warnings.load_progress", lambda _: {("bills", "bill"): progress}
    )

    def told(columns: dict[str, Any]) -> list[str]:
        given = {"name": "bills", "files": {"path": "in/*"}, "columns": columns}
        config = SimpleNamespace(sources={"bills": Source.model_validate(given)})
        warehouse: Any = SimpleNamespace(config=config, exists=lambda *_: True)
        return list(untyped(warehouse, ["bills"]))

    [text] = told({})
    assert "the types of id, Due, paid: string" in text
    for of in ("db.bill", "bill"):
        [text] = told({of: {"due": "date"}, "db.memo": {"id": "int"}})
        assert "the types of id, paid: string" in text and "{db.bill: {id: …}}" in text
    # `old` is another table than `bill.old`, whose own name has a dot.
    [text] = told({"old": {"due": "date"}})
    assert "the types of id, Due, paid: string" in text
    assert told({"db.bill": {"id": "int", "due": "date", "paid": "boolean"}}) == []


def test_nobody_is_asked_for_the_type_of_the_shard_column() -> None:
    """It is the product's own: no source has it."""
    entry = {"from": ["m.s_?"], "target": "s", "shard_column": "shard"}
    declared = Tables.model_validate({"source": "farm", "tables": [entry]})
    way = route(declared, "m", None, table="s_1", ddl=DdlPolicy())
    assert way is not None
    columns = {"id": "int", "x": "string", "Shard": "string"}
    assert untyped_columns((), columns, way, new=columns, typed=["id"]) == ("x",)


@pytest.mark.parametrize(
    ("met", "found"),
    [
        (["id", "email", "notes", "phone"], {"emial": "email", "Note": "notes"}),
        (["id", "email", "notes", "phone", "NOTE"], {"emial": "email"}),
        (["id", "Emial", "notes", "phone"], {"Note": "notes"}),
    ],
)
def test_a_misspelt_column_that_was_to_be_hidden_is_named(
    met: list[str], found: dict[str, str]
) -> None:
    """Not one that hides nothing because the table has no such column: `defaults` name many."""
    masks = {"emial": {"mask": "null"}, "phone": {"mask": "null"}, "iban": {"mask": "null"}}
    entry = {"from": ["m.s"], "target": "s", "columns": masks, "exclude": ["Note"]}
    declared = Tables.model_validate({"source": "farm", "tables": [entry]})
    way = route(declared, "m", None, table="s", ddl=DdlPolicy())
    assert way is not None
    assert misspelt_columns(way, ["id", "email", "notes", "phone"], met=met) == found


def test_a_column_is_new_until_progress_knows_it() -> None:
    """Whoever added it: a run that was killed before it recorded its progress, or an approval."""
    applied = {
        "a.t": Watermarks(applied=(5,)),
        "b.t": Watermarks(applied=(7,)),
        "c.t": Watermarks(),
    }
    progress = Progress(target="t", source="s", watermarks=applied).with_columns(["Id", "x"])
    narrow = {label: known.last_narrow for label, known in progress.watermarks.items()}
    assert (progress.columns, narrow) == (("id", "x"), {"a.t": (5,), "b.t": (7,), "c.t": None})
    later = replace(progress, watermarks={"a.t": Watermarks(applied=(9,), last_narrow=(5,))})
    assert later.with_columns(["id", "X"]) == later
    assert later.with_columns(["id", "x", "y"]).watermarks["a.t"].last_narrow == (9,)
    fewer = later.with_columns(["id"])
    assert (fewer.columns, fewer.watermarks) == (("id",), later.watermarks)
    # A name that was taken away and comes again is another column.
    assert fewer.with_columns(["id", "x"]).watermarks["a.t"].last_narrow == (9,)


def test_what_one_source_table_dropped_is_there_while_another_sends_it() -> None:
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    dropped = lineage([((5,), DropColumn("c"), False)])

    def found(*others: str) -> dict[str, str]:
        sent = {dropped: ("id", "C"), (): ("id", *others)}
        wanted = {"id": "int", "c": "int"}
        return todays_columns(way, wanted, [], held={}, lineages=sent, keys=["id"])

    assert found() == {"id": "int"}
    assert found("c") == {"id": "int", "c": "int"}


def test_a_column_that_was_added_keeps_its_type() -> None:
    """No message says one; what is set aside for it stays aside."""
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    entry = _entry(AddColumn("n", "int"), "applied", risk="additive")
    wanted = {"id": "int", "n": "string"}
    for held in ({}, {"id": "int", "n": "int"}):
        found = todays_columns(way, wanted, [entry], held=held, lineages={}, keys=["id"])
        assert found == {"id": "int", "n": "int"}


def test_a_renamed_column_has_the_type_that_messages_told_before() -> None:
    lines = lineage(
        [((5,), RenameColumn("ID", "pid"), False), ((6,), RenameColumn("pid", "no"), False)]
    )
    declared = Tables.model_validate({"source": "farm", "tables": [{"from": "*"}]})
    way = route(declared, "barn", None, table="cows", ddl=DdlPolicy())
    assert way is not None
    told = (ColumnType("id", "bigint", "bigint"), ColumnType("n", "int", "int"))

    def types(*listed: tuple[ColumnType, ...]) -> dict[str, str]:
        feed = Feed(way, COWS, (COWS,), [], listed, lines)
        found = types_of_today(feed)
        return {column.name: column.type for each in found for column in each}

    assert types(told) == {"id": "bigint", "n": "int", "pid": "bigint", "no": "bigint"}
    assert types(told, (ColumnType("no", "int", "int"),))["no"] == "int"
    assert types() == {}
