"""What approved schema changes make of earlier events, as far as it can be told without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.masks import MaskSecret
from ingest.ddl.changes import (
    AddColumn,
    Added,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    Default,
    DropColumn,
    FreezeTable,
    Lineage,
    LineageEntry,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    added_with_default,
    brings,
    brought,
    column_of,
    defaults,
    ended,
    ever_called,
    frees,
    lineage,
    name_today,
    names_since,
    names_through,
    reaches,
    renamed,
    retyped,
    retypings,
    schema_changes,
)
from ingest.ddl.dialect import declared_dialect, guess_dialect
from ingest.ddl.parse import parse
from ingest.ddl.widening import outgrown
from ingest.position import LENGTH, Pos, pos_literal
from ingest.sql.fold.latest import latest
from ingest.sql.lineage import translated
from ingest.sql.masks import Masking
from ingest.sql.projection import Projection, as_today, events
from pipelines.platform.rows import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Event = dict[str, Any]


def at(number: int) -> Pos:
    return (0, 1, number, *[0] * (LENGTH - 3))


def read_in_snapshot(pos: Pos) -> Pos:
    return (*pos[:1], 0, *pos[2:])


STATEMENT = """ALTER TABLE t ADD COLUMN c int DEFAULT 7, DROP COLUMN d, RENAME COLUMN e TO f,
MODIFY g bigint, ADD PRIMARY KEY (a, b), ADD INDEX i (c)"""
CHANGES = (
    AddColumn("c", "int", "7"),
    DropColumn("d"),
    RenameColumn("e", "f"),
    AlterColumnType("g", "bigint"),
    ChangeKey(("a", "b")),
)


def test_changes_of_clauses() -> None:
    assert schema_changes(parse(STATEMENT).clauses, {}) == CHANGES
    declared = schema_changes(parse(STATEMENT).clauses, {"c": "string", "g": "decimal(20,0)"})
    assert declared[0] == AddColumn("c", "string", "7")
    assert declared[3] == AlterColumnType("g", "decimal(20,0)")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE t", (FreezeTable(),)),
        ("RENAME TABLE t TO u", (RenameTable(None, None, "u"),)),
        ("ALTER TABLE t COMMENT 'x'", ()),
        ("ALTER TABLE t ADD c timestamp DEFAULT now()", (AddColumn("c", "timestamp"),)),
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS c int, ADD d int",
            (AddColumn("c", "int", if_not_exists=True), AddColumn("d", "int")),
        ),
    ],
)
def test_changes_of_tables(sql: str, expected: tuple[SchemaChange, ...]) -> None:
    assert schema_changes(parse(sql).clauses, {}) == expected


@pytest.mark.parametrize(
    ("change", "concerned", "new", "gone"),
    [
        (AddColumn("C", "int"), "c", "c", None),
        (DropColumn("C"), "c", None, "c"),
        (RenameColumn("C", "D"), "c", "d", "c"),
        (AlterColumnType("C", "int"), "c", None, None),
        (ChangeKey(("C",)), None, None, None),
        (RenameTable(None, None, "C"), None, None, None),
        (FreezeTable(), None, None, None),
        (RecreateTable(), None, None, None),
    ],
)
def test_names_that_a_change_concerns(
    change: SchemaChange, concerned: str | None, new: str | None, gone: str | None
) -> None:
    assert (column_of(change), brings(change), frees(change)) == (concerned, new, gone)


EDITS = lineage(
    [
        (at(9), AddColumn("C", "string"), False),
        (at(5), DropColumn("c"), False),
        (at(3), RenameColumn("a", "b"), False),
        (at(4), RenameColumn("b", "e"), False),
        (at(6), AlterColumnType("n", "int"), False),
        (at(7), FreezeTable(), False),
        (at(8), AlterColumnType("m", "bigint", in_place=True), False),
    ]
)


def test_a_lineage_is_in_order_of_position() -> None:
    assert [entry.pos for entry in EDITS] == [at(n) for n in (3, 4, 5, 6, 9)]


@pytest.mark.parametrize(
    ("column", "expected"), [("c", None), ("A", at(3)), ("b", at(4)), ("e", None), ("x", None)]
)
def test_ended_columns(column: str, expected: Pos | None) -> None:
    assert ended(EDITS, column) == expected


def test_a_hidden_addition_does_not_bring_a_column_back() -> None:
    hidden = [entry._replace(hidden=isinstance(entry.change, AddColumn)) for entry in EDITS]
    assert ended(tuple(hidden), "c") == at(5)


def test_renames_are_followed() -> None:
    assert renamed(["a", "c"], EDITS, ["c", "e"]) == ("e", "c")
    assert renamed(["a"], EDITS, ["a"]) == ("a",)


def test_a_column_is_added_once_if_it_does_not_exist() -> None:
    first, again = AddColumn("c", "int", "5"), AddColumn("C", "string", "7", if_not_exists=True)
    told = [(at(2), first, False), (at(4), again, False)]
    assert lineage(reversed(told)) == (LineageEntry(at(2), first),)
    assert defaults(lineage(told)) == [Default("c", "5", at(2))]
    for gone in (DropColumn("c"), RenameColumn("C", "d"), RecreateTable()):
        kept = lineage([*told, (at(3), gone, False)])
        assert kept[-1] == LineageEntry(at(4), again)


def test_retyped_columns() -> None:
    assert retypings(EDITS) == {"n": at(6)}
    # By the names of today, also where columns take each other's.
    renames = [(at(7), RenameColumn("n", "m"), False), (at(7), RenameColumn("m", "n"), False)]
    types = [(at(6), AlterColumnType("n", "int"), False)]
    assert retypings(lineage([*types, *renames])) == {"m": at(6)}
    # A rename that waits moves nothing.
    assert retypings(lineage([*types, (at(7), RenameColumn("n", "m"), True)])) == {"n": at(6)}
    assert retypings(lineage([*types, (at(8), DropColumn("n"), False)])) == {}


SWAP = lineage([(at(3), RenameColumn("a", "b"), False), (at(3), RenameColumn("b", "a"), False)])
CHAIN = lineage(
    [
        (at(3), RenameColumn("a", "B"), False),
        (at(4), RenameColumn("b", "c"), False),
        (at(5), AddColumn("a", "int"), False),
        (at(6), RenameColumn("a", "z"), True),
    ]
)


@pytest.mark.parametrize(
    ("name", "entries", "since", "today"),
    [
        ("A", CHAIN, {"a", "c"}, "c"),
        ("b", CHAIN, {"b", "c"}, "c"),
        ("x", CHAIN, {"x"}, "x"),
        ("a", SWAP, {"a", "b"}, "b"),
        ("a", lineage([(at(3), DropColumn("a"), False)]), {"a"}, None),
    ],
)
def test_what_a_column_is_called_since(
    name: str, entries: Lineage, since: set[str], today: str | None
) -> None:
    assert names_since(name, entries) == since
    assert name_today(name, entries) == today


@pytest.mark.parametrize(
    ("name", "entries", "through"),
    [
        ("a", CHAIN, [(at(3), "a"), (at(4), "B"), (None, "c")]),
        # Declared by the name that it was given, or by one that it had in between.
        ("c", CHAIN, [(at(3), "a"), (at(4), "B"), (None, "c")]),
        ("a", SWAP, [(at(3), "a"), (None, "b")]),
        ("x", CHAIN, [(None, "x")]),
    ],
)
def test_what_a_column_is_called_in_events_of_each_age(
    name: str, entries: Lineage, through: list[tuple[Pos | None, str]]
) -> None:
    assert names_through(name, entries) == through


def test_all_names_that_a_column_may_have_had() -> None:
    renames = [RenameColumn("a", "b"), RenameColumn("X", "y"), RenameColumn("c", "B")]
    assert ever_called("A", renames) == {"a", "b", "c"}
    assert ever_called("y", renames) == {"x", "y"}


def test_whether_a_type_is_changed_again() -> None:
    again = lineage([(at(3), RenameColumn("a", "b"), False)])
    types = LineageEntry(at(4), AlterColumnType("B", "bigint", in_place=True))
    assert retyped("a", (*again, types))
    assert not retyped("b", (types._replace(change=DropColumn("b")), types))
    assert not retyped("a", again)


@pytest.mark.parametrize(
    ("lowest", "highest", "hidden", "expected"),
    [(8, 8, False, True), (9, 20, False, False), (1, 8, True, False), (1, 10, True, True)],
)
def test_events_that_are_read_otherwise(
    lowest: int, highest: int, hidden: bool, expected: bool
) -> None:
    entries = (LineageEntry(at(9), AddColumn("c", "int", "1"), hidden),)
    assert reaches(entries, at(lowest), at(highest), images=[["id", "C"]]) is expected
    assert not reaches(entries, None, None, images=[["id"]])
    read = read_in_snapshot(at(8))
    assert reaches(entries, read, read, images=[["id", "C"]])


def test_a_snapshot_of_the_next_epoch_beside_the_stream_of_the_last_one() -> None:
    """Its rows may be read above a change that waits, and stand below it."""
    waits = (LineageEntry((1, *at(9)[1:]), AddColumn("c", "int"), hidden=True),)
    read = (1, *read_in_snapshot(at(20))[1:])
    assert reaches(waits, at(8), read, images=[["id", "c"]])
    assert not reaches(waits, at(8), at(30), images=[["id", "c"]])


def test_an_insert_without_a_column_that_has_a_default_is_read_otherwise() -> None:
    """The rows that come before the cutover of an online schema change (53)."""
    entries = (
        LineageEntry(at(5), AddColumn("c", "int", "1")),
        LineageEntry(at(6), DropColumn("d")),
    )
    assert reaches(entries, at(7), at(8), images=[["id"]])
    assert not reaches(entries[1:], at(7), at(8), images=[["id"]])


def test_columns_that_came_with_a_default() -> None:
    entries = (
        LineageEntry(at(5), AddColumn("C", "int", "1")),
        LineageEntry(at(5), AddColumn("d", "int", "2")),
        LineageEntry(at(5), AddColumn("e", "int", "3")),
        LineageEntry(at(5), AddColumn("f", "int", "4"), hidden=True),
        LineageEntry(at(6), RenameColumn("c", "D")),
        LineageEntry(at(6), RenameColumn("d", "C")),
        LineageEntry(at(7), DropColumn("E")),
        LineageEntry(at(8), AddColumn("e", "int")),
        LineageEntry(at(9), RenameColumn("x", "y")),
    )
    assert added_with_default(entries[:4]) == {
        "c": Added(at(5), "1"),
        "d": Added(at(5), "2"),
        "e": Added(at(5), "3"),
    }
    assert added_with_default(entries) == {"d": Added(at(5), "1"), "c": Added(at(5), "2")}


def test_a_default_ends_with_its_column() -> None:
    """What comes between a drop and an addition of the same name has no such column (52)."""
    entries = (
        LineageEntry(at(5), AddColumn("C", "int", "1")),
        LineageEntry(at(6), RenameColumn("c", "D")),
        LineageEntry(at(7), DropColumn("d")),
        LineageEntry(at(8), AddColumn("d", "int")),
        LineageEntry(at(9), DropColumn("d"), hidden=True),
    )
    assert defaults(entries) == [
        Default("C", "1", at(5), at(6)),
        Default("D", "1", at(6), at(7), named=True),
    ]
    assert reaches(entries[:2], at(6), at(6), images=[["id"]])
    assert not reaches(entries[:4], at(8), at(8), images=[["id"]])


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("ALTER TABLE `t` ADD c int", {}, "mysql"),
        ("ALTER TABLE t ADD c int", {}, "mysql"),
        ('ALTER TABLE "S"."T" DROP COLUMN "C"', {}, "oracle"),
        ("ALTER TABLE T ADD (C NUMBER(9))", {}, "oracle"),
        ("ALTER TABLE T ADD C VARCHAR2(9)", {"schema": "HR"}, "oracle"),
        ("ALTER TABLE T DROP COLUMN C", {"schema": "HR"}, "oracle"),
        ("ALTER TABLE t DROP COLUMN c", {"schema": "public"}, "postgres"),
        ("ALTER TABLE t ALTER COLUMN c TYPE int8", {"schema": "public"}, "postgres"),
        ("ALTER TABLE t ADD c nvarchar(9)", {"schema": "dbo"}, "tsql"),
        ("ALTER TABLE t ADD c date", {"db": "shop", "schema": "shop"}, "mysql"),
        ("ALTER TABLE t ADD c date COMMENT 'see NUMBER'", {}, "mysql"),
        ("ALTER TABLE t ADD c date -- a NUMBER", {}, "mysql"),
    ],
)
def test_the_dialect_of_a_text(text: str, known: dict[str, Any], expected: str) -> None:
    assert guess_dialect(text, **known) == expected


@pytest.mark.parametrize(
    ("option", "schema", "expected"),
    [
        ("oracle", "HR", "oracle"),
        ("mysql", None, "mysql"),
        ("sqlserver", None, "tsql"),
        ("mysql", "shop", "mysql"),
        ("mysql", "HR", None),
    ],
)
def test_the_dialect_a_source_declares(
    option: str, schema: str | None, expected: str | None
) -> None:
    assert declared_dialect(option, db="shop", schema=schema) == expected


@pytest.mark.parametrize(
    ("type_", "texts", "expected"),
    [
        ("int", ["3000000000"], "bigint"),
        ("int", ["-2147483648"], "bigint"),
        ("bigint", ["18446744073709551615"], "decimal(20,0)"),
        ("int", ["18446744073709551615", "1"], "decimal(20,0)"),
        ("int", ["1.25"], "decimal(22,2)"),
        ("decimal(4,2)", ["1234.5"], "decimal(6,2)"),
        ("decimal(4,2)", ["0.125"], "decimal(5,3)"),
        ("decimal(38,0)", ["0.5"], None),
        # more digits than Python makes a number of
        ("int", ["7" * 5_000], None),
        ("int", ["7" * 5_000 + ".5"], None),
        ("decimal(4,2)", ["7" * 5_000], None),
        ("int", ["few"], None),
        ("int", [], None),
        ("string", ["1"], None),
        ("date", ["20240101"], None),
    ],
)
def test_the_type_that_outgrown_values_need(
    type_: str, texts: list[str], expected: str | None
) -> None:
    assert outgrown(type_, texts) == expected


@pytest.mark.parametrize(
    ("changes", "new"),
    [
        ([AddColumn("A", "int"), RenameColumn("a", "b")], {"a", "b"}),
        ([RenameColumn("b", "C"), RenameColumn("a", "b")], {"c"}),
        # A swap, by way of a third name.
        ([RenameColumn("a", "_"), RenameColumn("b", "a"), RenameColumn("_", "b")], {"_"}),
        ([DropColumn("a"), AddColumn("a", "int")], set()),
        ([AlterColumnType("a", "int"), ChangeKey(("a",))], set()),
    ],
)
def test_columns_that_changes_bring(changes: list[SchemaChange], new: set[str]) -> None:
    assert brought(changes) == new


class LongLived:
    """A table whose columns change again and again, and events of all its ages."""

    def __init__(self, seed: int, changes: int) -> None:
        self._chance = random.Random(seed)
        self._columns = ["id", "a", "B", "c$"]
        self._alive: dict[int, list[str]] = {0: list(self._columns)}
        self._touched: set[str] = set()
        self._place = 1
        self.entries: list[tuple[Pos, ColumnChange, bool]] = []
        while len(self.entries) < changes:
            self._change()

    def _change(self) -> None:
        chance = self._chance
        held = {name.lower() for name in self._columns}
        free = [name for n in range(30) if (name := f"n{n}") not in held]
        old, new = chance.choice(self._columns), chance.choice(free)
        way = chance.choice(("add", "add", "add", "drop", "rename", "retype", "hide"))
        if len(held) > 15:
            way = "drop"
        if (old == "id" or len(held) < 3) and way != "add":
            return
        if {old.lower(), new.lower()} & self._touched or chance.random() < 0.8:
            # One statement says nothing twice of a column.
            self._place, self._touched = self._place + chance.choice((1, 2, 3)), set()
        self._touched |= {old.lower(), new.lower()}
        if way == "add":
            new = chance.choice((new, new.upper()))
            text = chance.choice((None, "it's ${env:HOME}", f"{len(self.entries)}"))
            change: ColumnChange = AddColumn(new, "string", text)
            self._columns.append(new)
        elif way == "drop":
            change = DropColumn(chance.choice((old, old.lower())))
            self._columns.remove(old)
        elif way == "rename":
            change = RenameColumn(old, new)
            self._columns[self._columns.index(old)] = new
        else:
            change = AddColumn(old, "string")
            if way == "retype":
                change = AlterColumnType(old, "string")
        self.entries.append((at(self._place), change, way == "hide"))
        self._alive[self._place] = list(self._columns)

    def events(self, count: int) -> Iterator[Event]:
        chance = self._chance
        for number in range(count):
            place = chance.randrange(self._place + 3)
            now = self._alive[max(p for p in self._alive if p <= place)]
            stray = [chance.choice(["n1", "n2", "n3"])] * (chance.random() < 0.1)
            names = [name for name in now if chance.random() < 0.9]
            names += [name for name in stray if name not in map(str.lower, now)]
            image: Event = {name: f"{number}.{name}" for name in names}
            yield {
                "number": number,
                "op": chance.choice(("insert", "snapshot", "update", "delete")),
                "pos": list(at(place)),
                "after_image": chance.choice(("full", "full", "partial")),
                "before": chance.choice((None, dict(image))),
                "after": chance.choice((image, image, image, None)),
                "key": {name: "k" for name in now[:2]},
                "key_before": None,
                "unavailable": chance.choice((None, [], ["n4", "N5"])),
            }


def step_by_step(event: Event, entries: Sequence[LineageEntry]) -> Event:
    """What `translated` is to give, one entry after the other."""
    event = dict(event)
    pos, given = tuple(event["pos"]), defaults(tuple(entries))
    for entry in entries:
        change, early = entry.change, pos < entry.pos
        for name in ("before", "after", "key", "key_before"):
            image = event[name]
            if image is None:
                continue
            mine = {key for key in image if key.lower() == column_of(change)}
            of_row = name in ("before", "after")
            goes = (entry.hidden and pos > entry.pos) or (isinstance(change, DropColumn) and early)
            if of_row and goes:
                event[name] = {key: text for key, text in image.items() if key not in mine}
            elif not entry.hidden and isinstance(change, RenameColumn) and early:
                new = change.new
                gone = mine if new in image else set()
                event[name] = {
                    (new if key in mine else key): text
                    for key, text in image.items()
                    if key not in gone
                }
        for default in given:
            if default.since == entry.pos and default.column.lower() == brings(change):
                _fill(event, default, pos)
    return event


def _fill(event: Event, default: Default, pos: Pos) -> None:
    new = event["op"] in ("insert", "snapshot") and event["after_image"] == "full"
    early = pos < default.since
    fits = (new and not early) if default.named else (new or early)
    if default.until is not None and pos >= default.until:
        fits = False
    known = {name.lower() for name in [*(event["after"] or ()), *(event["unavailable"] or ())]}
    if fits and event["after"] is not None and default.column.lower() not in known:
        event["after"] = {**event["after"], default.column: default.text}


def test_hundreds_of_changes_are_read_in_one_query(spark: SparkSession) -> None:
    """A query that is deeper with each change is one that Spark plans no more after some twenty."""
    lived = LongLived(1, 200)
    entries = lineage(lived.entries)
    sent = list(lived.events(400))
    schema = (
        "number int, op string, pos array<bigint>, after_image string, before map<string,string>, "
        "after map<string,string>, key map<string,string>, key_before map<string,string>, "
        "unavailable array<string>"
    )
    spark.createDataFrame([tuple(e.values()) for e in sent], schema).createOrReplaceTempView("sent")
    query = translated("SELECT * FROM sent", entries)
    assert query.count("SELECT") == translated("SELECT * FROM sent", entries[:20]).count("SELECT")
    got = {row["number"]: row for row in records(spark.sql(query))}
    for event in sent:
        assert got[event["number"]] == step_by_step(event, entries), event


@pytest.mark.parametrize(
    ("tells", "expected"),
    [
        (True, [{"a": "B", "b": "A"}] * 3 + [{"a": "A", "b": "B", "c": "C"}]),
        (False, [{"a": "B", "b": "A"}] * 4),
    ],
)
def test_a_row_of_a_snapshot_has_the_columns_of_when_it_was_read(
    spark: SparkSession, tells: bool, expected: list[dict[str, str]]
) -> None:
    """An incremental one is read amid the stream, and stands below it."""
    swap: list[ColumnChange] = [RenameColumn(*names) for names in ("a_", "ba", "_b")]
    again: list[ColumnChange] = [DropColumn("c"), AddColumn("c", "string")]
    places = [(*at(number)[:-1], 1) for number in range(7)]
    projection = Projection(
        keys=("id",),
        columns={"id": "int", "a": "string", "b": "string", "c": "string"},
        lineage=lineage([(places[3], change, False) for change in (*swap, *again)]),
        read_positions=tells,
    )
    # A snapshot may be taken where a statement begins.
    placed = [places[2], *(read_in_snapshot(places[number]) for number in (2, 3, 6))]
    rows = ", ".join(f"({number}, {pos_literal(pos)})" for number, pos in enumerate(placed))
    changes = f"""SELECT number, 'snapshot' AS op, pos, 'full' AS after_image,
  CAST(NULL AS map<string,string>) AS before, map('a', 'A', 'b', 'B', 'c', 'C') AS after,
  map('id', '1') AS key, CAST(NULL AS map<string,string>) AS key_before,
  CAST(NULL AS array<string>) AS unavailable FROM VALUES {rows} AS t(number, pos)"""
    found = records(spark.sql(as_today(projection, changes)))
    assert [row["after"] for row in sorted(found, key=lambda row: row["number"])] == expected


@pytest.mark.parametrize("native", [True, False], ids=["silver's key", "another key"])
def test_the_default_of_a_masked_key_column_is_masked(spark: SparkSession, native: bool) -> None:
    """Of rows from before the column was added: what deletes them has no image to be filled."""
    secret = MaskSecret.of(b"a pepper")
    view = "_default_of_a_key"
    row = [(bytearray(secret.inner), bytearray(secret.outer))]
    spark.createDataFrame(row, "pad_in binary, pad_out binary").createOrReplaceTempView(view)
    changes = f"""SELECT op, {pos_literal(at(1))} AS pos, 'full' AS after_image,
  IF(op = 'delete', image, NULL) AS before, IF(op = 'delete', NULL, image) AS after,
  map('id', '1') AS key, CAST(NULL AS map<string,string>) AS key_before,
  CAST(NULL AS array<string>) AS unavailable, timestamp '2025-01-01' AS event_time, 0 AS epoch,
  'x' AS tx_id, 1 AS value_hash, 1 AS batch, 't' AS topic, 0 AS `partition`, 0 AS offset, 0 AS row
FROM (SELECT op, map('id', '1', 'v', 'a') AS image FROM VALUES ('insert'), ('delete') AS t(op))"""
    projection = Projection(
        keys=("id", "mail"),
        columns={"id": "int", "mail": "string", "v": "string"},
        native=native,
        lineage=lineage([(at(2), AddColumn("mail", "string", "all@home.example"), False)]),
        masks={"mail": Masking("hash", None, "t.mail", view)},
    )
    keys = [row["key"] for row in records(spark.sql(events(projection, changes)))]
    assert keys == [["1", secret.digest("all@home.example")]] * 2
    inserts = f"SELECT * FROM ({changes}) WHERE op = 'insert'"
    folded = latest(projection, inserts, sets=("v",), unless="(SELECT array('') AS key)")
    [state] = records(spark.sql(folded))
    assert [state["_k0"], state["_k1"]] == [1, secret.digest("all@home.example")]
