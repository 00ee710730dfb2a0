"""Schema changes decided through the command, on real Delta tables: one warehouse, a table a case.

Every case has up to three rounds of messages with a run after each, decisions after the second, and
the rows that must stand at the end. `@` in the names of positions is the message's `es`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal, canal_ddl, project_in

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = (
    "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl', framing: kcat}\n"
)
T0 = 1_700_000_000_000
INT, TEXT = "int", "varchar(9)"
Row = dict[str, Any]


class Case(NamedTuple):
    """`rounds`: messages as (position, what); `decisions`: (verb, substring of the statement);
    `rows`: gold at the end; `statuses`: of its ledger entries at the end, in order of position."""

    rounds: Sequence[Sequence[tuple[int, Any]]]
    rows: Sequence[Row]
    statuses: Sequence[str]
    decisions: Sequence[tuple[str, str]] = ()
    options: str = ""
    waiting: Sequence[int] = ()


def put(types: Mapping[str, str] | None = None, keys: Sequence[str] = ("id",), **row: Any) -> Any:
    """An insert, or an update of all columns: canal tells them by `type`."""
    return {"type": "INSERT", "row": row, "types": types, "keys": keys}


def now(types: Mapping[str, str] | None = None, keys: Sequence[str] = ("id",), **row: Any) -> Any:
    return {"type": "UPDATE", "row": row, "types": types, "keys": keys}


def gone(**row: Any) -> Any:
    return {"type": "DELETE", "row": row, "types": None, "keys": ("id",)}


def moved(old: str, keys: Sequence[str] = ("id",), **row: Any) -> Any:
    """An update that changes `id`, which was `old`."""
    return {**now(keys=keys, **row), "old": {"id": old}}


def valid(since: int, until: int | None) -> Row:
    """The interval of a version, from and to so many seconds after T0."""
    start, end = (
        None
        if second is None
        else datetime.fromtimestamp(T0 // 1000 + second, UTC).isoformat().replace("+00:00", "Z")
        for second in (since, until)
    )
    return {"_valid_from": start, "_valid_to": end, "_current": until is None}


REVIEW = "ddl: {additive: review, widening: review}"
CASES: dict[str, Case] = {
    # 51: the value of later events where there is one, NULL among them; else the DEFAULT.
    "added": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x")), (1, put(id=3, a="x"))],
            [
                (5, "ALTER TABLE added ADD COLUMN c int DEFAULT 7"),
                (6, put(id=4, a="y", c=5)),
                (7, now(id=2, a="x", c=8)),
                (8, now(id=3, a="x", c=None)),
            ],
            [(2, put(id=5, a="late")), (9, put(id=6, a="z", c=9))],
        ],
        options=REVIEW,
        decisions=[("approve", "ADD COLUMN")],
        rows=[
            {"id": 1, "a": "x", "c": 7},
            {"id": 2, "a": "x", "c": 8},
            {"id": 3, "a": "x", "c": None},
            {"id": 4, "a": "y", "c": 5},
            {"id": 5, "a": "late", "c": 7},
            {"id": 6, "a": "z", "c": 9},
        ],
        statuses=["applied"],
        waiting=[3],
    ),
    # The batch that creates the target brings the DDL, too.
    "born": Case(
        rounds=[
            [
                (1, put(id=1, a="x")),
                (2, "ALTER TABLE born ADD COLUMN c decimal(6,2) NOT NULL DEFAULT 1.5"),
                (3, put({"c": "decimal(6,2)"}, id=2, a="y", c="2.25")),
            ]
        ],
        rows=[{"id": 1, "a": "x", "c": "1.50"}, {"id": 2, "a": "y", "c": "2.25"}],
        statuses=["applied"],
    ),
    "widened": Case(
        rounds=[
            [(1, put(id=1, n=7))],
            [
                (5, "ALTER TABLE widened MODIFY n bigint"),
                (6, put({"n": "bigint"}, id=2, n=3_000_000_000)),
                (7, now({"n": "bigint"}, id=1, n=8)),
            ],
        ],
        options=REVIEW,
        decisions=[("approve", "MODIFY")],
        rows=[{"id": 1, "n": 8}, {"id": 2, "n": 3_000_000_000}],
        statuses=["applied"],
        waiting=[1],
    ),
    "retyped": Case(
        rounds=[
            [(1, put(id=1, n=7)), (1, put(id=2, n=9))],
            [
                (5, "ALTER TABLE retyped MODIFY n varchar(9)"),
                (6, now({"n": TEXT}, id=2, n="nine")),
                (7, put({"n": TEXT}, id=3, n="10")),
            ],
        ],
        decisions=[("approve", "MODIFY")],
        rows=[{"id": 1, "n": "7"}, {"id": 2, "n": "nine"}, {"id": 3, "n": "10"}],
        statuses=["applied"],
        waiting=[1],
    ),
    "retyped_key": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [
                (5, "ALTER TABLE retyped_key MODIFY id varchar(9)"),
                (6, put({"id": TEXT}, id="k3", a="z")),
            ],
            [(7, now({"id": TEXT}, id="1", a="y")), (2, now(id=2, a="late"))],
        ],
        decisions=[("approve", "MODIFY")],
        rows=[{"id": "1", "a": "y"}, {"id": "2", "a": "late"}, {"id": "k3", "a": "z"}],
        statuses=["applied"],
    ),
    "versions_added": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "ALTER TABLE versions_added ADD COLUMN c int DEFAULT 7"),
                (6, now(id=1, a="y", c=5)),
            ],
            [(7, now(id=1, a="z", c=6))],
        ],
        options=f"stored_as_scd_type: 2, {REVIEW}",
        decisions=[("approve", "ADD COLUMN")],
        rows=[
            {"id": 1, "a": "x", "c": 7, **valid(1, 6)},
            {"id": 1, "a": "y", "c": 5, **valid(6, 7)},
            {"id": 1, "a": "z", "c": 6, **valid(7, None)},
        ],
        statuses=["applied"],
    ),
    # Versions that a dropped column alone told apart are one.
    "versions_dropped": Case(
        rounds=[
            [(1, put(id=1, a="x", c=1)), (2, now(id=1, a="x", c=2))],
            [(5, "ALTER TABLE versions_dropped DROP COLUMN c"), (6, now(id=1, a="y"))],
        ],
        options="stored_as_scd_type: 2",
        decisions=[("approve", "DROP COLUMN")],
        rows=[
            {"id": 1, "a": "x", **valid(1, 6)},
            {"id": 1, "a": "y", **valid(6, None)},
        ],
        statuses=["applied"],
    ),
    "images_retyped": Case(
        rounds=[
            [(1, put(id=1, n=7))],
            [
                (5, "ALTER TABLE images_retyped MODIFY n varchar(9)"),
                (6, now({"n": TEXT}, id=1, n="nine")),
            ],
            [(7, now({"n": TEXT}, id=1, n="ten"))],
        ],
        options="stored_as_scd_type: append",
        decisions=[("approve", "MODIFY")],
        rows=[{"id": 1, "n": "7"}, {"id": 1, "n": "nine"}, {"id": 1, "n": "ten"}],
        statuses=["applied"],
    ),
    # Images from before a rename, and those that come late, have the new name too.
    "images_renamed": Case(
        rounds=[
            [(1, put(id=1, c=5))],
            [
                (5, "ALTER TABLE images_renamed RENAME COLUMN c TO d"),
                (6, put({"d": INT}, id=2, d=6)),
            ],
            [(3, put(id=3, c=7))],
        ],
        options="stored_as_scd_type: append",
        decisions=[("approve", "RENAME")],
        rows=[{"id": 1, "d": 5}, {"id": 2, "d": 6}, {"id": 3, "d": 7}],
        statuses=["applied"],
    ),
    # What the source cuts off is in no event, so gold stays as it is, and somebody is asked: the
    # types from before are those of its messages, and of its statements since.
    "cut_short": Case(
        rounds=[
            [(1, put({"a": "varchar(40)"}, id=1, a="forty"))],
            [
                (4, "ALTER TABLE cut_short MODIFY a varchar(50)"),
                (5, "ALTER TABLE cut_short MODIFY a varchar(45)"),
                (6, "ALTER TABLE cut_short MODIFY id smallint NOT NULL"),
                (7, "ALTER TABLE cut_short MODIFY id int NOT NULL"),
                (8, put({"a": "varchar(45)"}, id=2, a="y")),
            ],
        ],
        decisions=[("approve", "varchar(45)")],
        rows=[{"id": 1, "a": "forty"}, {"id": 2, "a": "y"}],
        statuses=["applied", "applied", "pending", "applied"],
    ),
    # 77: dropped and created again: one proposal, and what the new table has waits for it.
    "anew": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [
                (3, put(id=9, a="x")),
                (4, "DROP TABLE anew"),
                (5, "CREATE TABLE anew (id int primary key, a varchar(9), c int default 7)"),
                (6, put(id=1, a="new", c=5)),
                (7, put(id=3, a="z", c=None)),
            ],
            [(2, now(id=2, a="late")), (8, put(id=4, a="w", c=9))],
        ],
        decisions=[("approve", "CREATE TABLE")],
        rows=[
            {"id": 1, "a": "new", "c": 5},
            {"id": 3, "a": "z", "c": None},
            {"id": 4, "a": "w", "c": 9},
        ],
        statuses=["superseded", "applied"],
        waiting=[2],
    ),
    # A target that was frozen goes on, in the run that brings the CREATE.
    "thawed": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [(4, "DROP TABLE thawed")],
            [
                (5, "CREATE TABLE thawed (id int primary key, a bigint)"),
                (6, put({"a": "bigint"}, id=2, a=5)),
                (2, now(id=1, a="late")),
            ],
        ],
        options="ddl: {destructive: apply}",
        rows=[{"id": 2, "a": 5}],
        statuses=["applied", "applied"],
    ),
    "born_again": Case(
        rounds=[
            [
                (1, put(id=1, a="x")),
                (4, "DROP TABLE IF EXISTS born_again"),
                (5, "CREATE TABLE born_again (id int primary key, a varchar(9))"),
                (6, put(id=2, a="y")),
            ],
            [(3, put(id=3, a="late")), (7, put(id=4, a="z"))],
        ],
        rows=[{"id": 2, "a": "y"}, {"id": 4, "a": "z"}],
        statuses=["superseded", "applied"],
    ),
    "versions_again": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (4, "DROP TABLE versions_again"),
                (5, "CREATE TABLE versions_again (id int primary key, a varchar(9))"),
                (6, put(id=1, a="new")),
            ],
        ],
        options="stored_as_scd_type: 2",
        decisions=[("approve", "CREATE TABLE")],
        rows=[{"id": 1, "a": "x", **valid(1, 5)}, {"id": 1, "a": "new", **valid(6, None)}],
        statuses=["superseded", "applied"],
    ),
    "marked_again": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [
                (4, "DROP TABLE marked_again"),
                (5, "CREATE TABLE marked_again (id int primary key, a varchar(9))"),
                (6, put(id=1, a="new")),
            ],
        ],
        options="deletes: soft",
        decisions=[("approve", "CREATE TABLE")],
        rows=[
            {"id": 1, "a": "new", "_deleted_at": None},
            {"id": 2, "a": "x", "_deleted_at": valid(5, None)["_valid_from"]},
        ],
        statuses=["superseded", "applied"],
    ),
    "images_again": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (4, "DROP TABLE images_again"),
                (5, "CREATE TABLE images_again (id int primary key, a varchar(9))"),
                (6, put(id=1, a="new")),
            ],
        ],
        options="stored_as_scd_type: append",
        decisions=[("approve", "CREATE TABLE")],
        rows=[{"id": 1, "a": "x"}, {"id": 1, "a": "new"}],
        statuses=["superseded", "applied"],
    ),
    # What no longer fits, but was overwritten since, does not keep its row away.
    "narrowed": Case(
        rounds=[
            [(1, put(id=1, a="one")), (1, put(id=2, a="2"))],
            [(3, now(id=1, a="1")), (5, "ALTER TABLE narrowed MODIFY a int")],
            [(6, put({"a": INT}, id=3, a=3)), (2, now(id=2, a="two"))],
        ],
        decisions=[("approve", "MODIFY")],
        rows=[{"id": 1, "a": 1}, {"id": 2, "a": 2}, {"id": 3, "a": 3}],
        statuses=["applied"],
    ),
    # Where every state is shown, one that does not fit is set aside: without that value it would
    # have an older one, or none.
    "versions_narrowed": Case(
        rounds=[
            [(1, put(id=1, a="1", b="x"))],
            [(5, "ALTER TABLE versions_narrowed MODIFY a int")],
            [(6, now({"a": INT}, id=1, a=3, b="z")), (2, now(id=1, a="two", b="y"))],
        ],
        options="stored_as_scd_type: 2",
        decisions=[("approve", "MODIFY")],
        rows=[
            {"id": 1, "a": 1, "b": "x", **valid(1, 6)},
            {"id": 1, "a": 3, "b": "z", **valid(6, None)},
        ],
        statuses=["applied"],
    ),
    "images_narrowed": Case(
        rounds=[
            [(1, put(id=1, a="1"))],
            [(5, "ALTER TABLE images_narrowed MODIFY a int")],
            [(6, now({"a": INT}, id=1, a=3)), (2, now(id=1, a="two"))],
        ],
        options="stored_as_scd_type: append",
        decisions=[("approve", "MODIFY")],
        rows=[{"id": 1, "a": 1}, {"id": 1, "a": 3}],
        statuses=["applied"],
    ),
    # A value that would be lost: nothing is changed.
    "unfit": Case(
        rounds=[
            [(1, put(id=1, a="one"))],
            [(5, "ALTER TABLE unfit MODIFY a int"), (6, put({"a": INT}, id=3, a=3))],
        ],
        decisions=[("approve!", "MODIFY")],
        rows=[{"id": 1, "a": "one"}, {"id": 3, "a": "3"}],
        statuses=["failed"],
    ),
    # 46
    "renamed": Case(
        rounds=[
            [(1, put(id=1, a="x", c=5)), (1, put(id=2, a="x", c=6))],
            [
                (5, "ALTER TABLE renamed RENAME COLUMN c TO d"),
                (6, put({"d": INT}, id=3, a="y", d=7)),
                (7, now({"d": INT}, id=2, a="x", d=8)),
            ],
            [(2, now(id=1, a="x", c=9)), (3, now(id=2, a="late", c=10))],
        ],
        decisions=[("approve", "RENAME")],
        rows=[
            {"id": 1, "a": "x", "d": 9},
            {"id": 2, "a": "x", "d": 8},
            {"id": 3, "a": "y", "d": 7},
        ],
        statuses=["applied"],
        waiting=[2],
    ),
    "renamed_key": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [(5, "ALTER TABLE renamed_key CHANGE id pk int")],
            [
                (6, now({"pk": INT}, ["pk"], pk=1, a="y")),
                (7, put({"pk": INT}, ["pk"], pk=3, a="z")),
                (2, now(id=2, a="late")),
            ],
        ],
        decisions=[("approve", "CHANGE")],
        rows=[{"pk": 1, "a": "y"}, {"pk": 2, "a": "late"}, {"pk": 3, "a": "z"}],
        statuses=["applied"],
    ),
    # What creates the target brings the new name of its key, too.
    "born_renamed_key": Case(
        rounds=[
            [
                (1, put(id=1, a="x")),
                (5, "ALTER TABLE born_renamed_key RENAME COLUMN id TO pk"),
                (6, put({"pk": INT}, ["pk"], pk=2, a="y")),
            ],
            [(7, now({"pk": INT}, ["pk"], pk=1, a="z"))],
        ],
        decisions=[("approve", "RENAME")],
        rows=[{"pk": 1, "a": "z"}, {"pk": 2, "a": "y"}],
        statuses=["applied"],
        waiting=[2],
    ),
    "renamed_key_at_once": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "ALTER TABLE renamed_key_at_once RENAME COLUMN id TO pk"),
                (6, put({"pk": INT}, ["pk"], pk=2, a="y")),
            ],
            [(7, now({"pk": INT}, ["pk"], pk=1, a="z"))],
        ],
        decisions=[("approve", "RENAME")],
        rows=[{"pk": 1, "a": "z"}, {"pk": 2, "a": "y"}],
        statuses=["applied"],
        waiting=[1],
    ),
    "dropped": Case(
        rounds=[
            [(1, put(id=1, a="x", c=5))],
            [(5, "ALTER TABLE dropped DROP COLUMN c"), (6, put(id=2, a="y"))],
            [(2, now(id=1, a="z", c=6))],
        ],
        decisions=[("approve", "DROP")],
        rows=[{"id": 1, "a": "z"}, {"id": 2, "a": "y"}],
        statuses=["applied"],
    ),
    # 52
    "readded": Case(
        rounds=[
            [(1, put(id=1, c=5)), (1, put(id=2, c=6))],
            [
                (5, "ALTER TABLE readded DROP COLUMN c"),
                (6, "ALTER TABLE readded ADD COLUMN c varchar(9) DEFAULT 'none'"),
                (7, now({"c": TEXT}, id=2, c="new")),
                (8, put({"c": TEXT}, id=3, c=None)),
            ],
            [(2, now(id=1, c=7)), (3, put(id=4, c=8))],
        ],
        decisions=[("approve", "DROP"), ("approve", "ADD")],
        rows=[
            {"id": 1, "c": "none"},
            {"id": 2, "c": "new"},
            {"id": 3, "c": None},
            {"id": 4, "c": "none"},
        ],
        statuses=["applied", "applied"],
    ),
    # A DEFAULT goes with its column: what has neither is not given it when the name comes again.
    "unfilled": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "ALTER TABLE unfilled ADD COLUMN c int DEFAULT 7"),
                (6, put(id=2, a="y", c=5)),
                (7, "ALTER TABLE unfilled DROP COLUMN c"),
                (8, put(id=3, a="z")),
                (9, "ALTER TABLE unfilled ADD c int"),
                (10, put(id=4, a="z", c=6)),
            ],
            [(8, put(id=5, a="late"))],
        ],
        decisions=[("approve", "DROP"), ("approve", "ADD c")],
        rows=[
            {"id": 1, "a": "x", "c": None},
            {"id": 2, "a": "y", "c": None},
            {"id": 3, "a": "z", "c": None},
            {"id": 4, "a": "z", "c": 6},
            {"id": 5, "a": "late", "c": None},
        ],
        statuses=["applied", "applied", "applied"],
    ),
    # The same type again, and only the second approved: the first is overtaken.
    "again": Case(
        rounds=[
            [(1, put(id=1, c=5)), (1, put(id=2, c=6))],
            [
                (5, "ALTER TABLE again DROP COLUMN c"),
                (6, "ALTER TABLE again ADD COLUMN c int"),
                (7, now(id=2, c=60)),
            ],
        ],
        decisions=[("approve", "ADD")],
        rows=[{"id": 1, "c": None}, {"id": 2, "c": 60}],
        statuses=["superseded", "applied"],
    ),
    "refused": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [(5, "ALTER TABLE refused ADD COLUMN c int"), (6, put(id=2, a="y", c=5))],
            [(7, put(id=3, a="z", c=6))],
        ],
        options=REVIEW,
        decisions=[("reject", "ADD")],
        rows=[{"id": 1, "a": "x"}, {"id": 2, "a": "y"}, {"id": 3, "a": "z"}],
        statuses=["rejected"],
        waiting=[1],
    ),
    # 54, by data first.
    "drifted": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [(6, put(id=2, a="y", c=5))],
            [(5, "ALTER TABLE drifted ADD COLUMN c int DEFAULT 7")],
        ],
        rows=[{"id": 1, "a": "x", "c": 7}, {"id": 2, "a": "y", "c": 5}],
        statuses=["applied"],
    ),
    "rekeyed": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="y"))],
            [
                (5, "ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)"),
                (6, put(keys=["id", "a"], id=1, a="z")),
            ],
            [(7, put(keys=["id", "a"], id=2, a="z")), (8, now(keys=["id", "a"], id=2, a="y"))],
        ],
        decisions=[("approve", "PRIMARY")],
        rows=[
            {"id": 1, "a": "x"},
            {"id": 1, "a": "z"},
            {"id": 2, "a": "y"},
            {"id": 2, "a": "z"},
        ],
        statuses=["applied"],
    ),
    # A column of the key goes with it, where the rest has always told the rows apart.
    "key_shortened": Case(
        rounds=[
            [(1, put(keys=["id", "l"], id=n, l=n, a="x")) for n in (1, 2)],
            [
                (
                    5,
                    "ALTER TABLE key_shortened DROP COLUMN l, DROP PRIMARY KEY, "
                    "ADD PRIMARY KEY (id)",
                ),
                (6, now(id=1, a="y")),
            ],
            [(2, now(keys=["id", "l"], id=2, l=2, a="late")), (7, put(id=3, a="z"))],
        ],
        decisions=[("approve", "PRIMARY")],
        rows=[{"id": 1, "a": "y"}, {"id": 2, "a": "late"}, {"id": 3, "a": "z"}],
        statuses=["applied"],
    ),
    # Where it has not, the delete of one row would be another's: nothing is changed.
    "key_mixed": Case(
        rounds=[
            [
                *((1, put(keys=["id", "l"], id=1, l=n, a="x")) for n in (1, 2)),
                (2, {**gone(id=1, l=2, a="x"), "keys": ("id", "l")}),
            ],
            [
                (5, "ALTER TABLE key_mixed DROP COLUMN l, DROP PRIMARY KEY, ADD PRIMARY KEY (id)"),
                (6, now(id=1, a="y")),
            ],
        ],
        decisions=[("approve!", "PRIMARY")],
        rows=[{"id": 1, "l": 1, "a": "x"}],
        statuses=["failed"],
    ),
    # The values of a new key that no change tells.
    "key_untold": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (
                    5,
                    "ALTER TABLE key_untold DROP COLUMN id, ADD COLUMN n int AUTO_INCREMENT, "
                    "ADD PRIMARY KEY (n)",
                ),
                (6, put(keys=["n"], n=2, a="y")),
            ],
        ],
        decisions=[("approve!", "PRIMARY")],
        rows=[{"id": 1, "a": "x"}],
        statuses=["failed"],
    ),
    # What names no value of a key column that was added later has had its DEFAULT since.
    "key_added": Case(
        rounds=[
            [(1, put(id=n, a="x")) for n in (1, 2, 3, 5)]
            + [(2, gone(id=1, a="x")), (3, moved("3", id=4, a="x"))],
            [
                (
                    5,
                    "ALTER TABLE key_added ADD COLUMN c int NOT NULL DEFAULT 7, "
                    "DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)",
                ),
                (6, put(keys=["id", "c"], id=1, a="new", c=8)),
                (7, now(keys=["id", "c"], id=2, a="y", c=7)),
            ],
            # One from before, which names the key of then.
            [(4, gone(id=5, a="x")), (8, put(keys=["id", "c"], id=2, a="z", c=8))],
        ],
        decisions=[("approve", "PRIMARY")],
        rows=[
            {"id": 1, "a": "new", "c": 8},
            {"id": 2, "a": "y", "c": 7},
            {"id": 2, "a": "z", "c": 8},
            {"id": 4, "a": "x", "c": 7},
        ],
        statuses=["applied"],
    ),
    # A key that no message names: changes of it from before it was renamed are found by its name
    # of then.
    "unsaid_key": Case(
        rounds=[
            [(1, put(keys=[], id=1, a="x")), (3, moved("1", keys=[], id=2, a="x"))],
            [
                (5, "ALTER TABLE unsaid_key RENAME COLUMN id TO pk"),
                (6, put(keys=[], pk=3, a="z")),
            ],
            [(2, now(keys=[], id=1, a="late")), (7, now(keys=[], pk=3, a="w"))],
        ],
        options="keys: [id]",
        decisions=[("approve", "RENAME")],
        rows=[{"pk": 2, "a": "x"}, {"pk": 3, "a": "w"}],
        statuses=["applied"],
    ),
    # A new type of a part of the key, which no DDL announced.
    "part_of_key": Case(
        rounds=[
            [(1, put(keys=["id", "l"], id=1, l=n, a="x")) for n in (1, 2)],
            [(6, put({"id": TEXT}, keys=["id", "l"], id="k3", l=1, a="z"))],
            [(7, now({"id": TEXT}, keys=["id", "l"], id="1", l=2, a="y"))],
        ],
        decisions=[("approve", "")],
        rows=[
            {"id": "1", "l": 1, "a": "x"},
            {"id": "1", "l": 2, "a": "y"},
            {"id": "k3", "l": 1, "a": "z"},
        ],
        statuses=["applied"],
    ),
    "sharded_key": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "ALTER TABLE sharded_key DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)"),
                (6, put(keys=["id", "a"], id=1, a="z")),
            ],
            [(7, put(keys=["id", "a"], id=2, a="z"))],
        ],
        options="shard_column: shard",
        decisions=[("approve", "PRIMARY")],
        rows=[
            {"id": id_, "a": a, "shard": "shop.sharded_key"}
            for id_, a in ((1, "x"), (1, "z"), (2, "z"))
        ],
        statuses=["applied"],
    ),
    # 53
    "frozen": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [(5, "DROP TABLE frozen")],
            [(6, put(id=2, a="y"))],
        ],
        decisions=[("approve", "DROP TABLE")],
        rows=[{"id": 1, "a": "x"}],
        statuses=["applied"],
    ),
    "called": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [
                (5, "RENAME TABLE called TO known"),
                (6, ("known", put(id=3, a="y"))),
                (7, ("known", now(id=1, a="z"))),
            ],
            [(8, ("known", now(id=3, a="w"))), (2, now(id=2, a="late"))],
        ],
        decisions=[("approve", "RENAME TABLE")],
        rows=[{"id": 1, "a": "z"}, {"id": 2, "a": "late"}, {"id": 3, "a": "w"}],
        statuses=["applied"],
        waiting=[2],
    ),
    # Its name is given to another table before it is decided: one proposal, and a table of its own
    # for each name.
    "turned": Case(
        rounds=[
            [(1, put(id=1, a="x")), (1, put(id=2, a="x"))],
            [
                (5, "RENAME TABLE turned TO turned_old"),
                (6, "CREATE TABLE turned (id int primary key, a varchar(9))"),
                (7, put(id=2, a="y")),
                (7, ("turned_old", now(id=1, a="z"))),
            ],
            [(8, put(id=3, a="w")), (8, ("turned_old", put(id=4, a="v")))],
        ],
        decisions=[("approve", "CREATE TABLE")],
        rows=[{"id": 2, "a": "y"}, {"id": 3, "a": "w"}],
        statuses=["superseded", "applied"],
    ),
    "turned_old": Case(rounds=[], rows=[{"id": 1, "a": "z"}, {"id": 4, "a": "v"}], statuses=[]),
    # Until it is decided the new name has no target; then it has its own.
    "kept": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [(5, "RENAME TABLE kept TO kept_too"), (6, ("kept_too", put(id=3, a="y")))],
            [(8, ("kept_too", put(id=4, a="z")))],
        ],
        decisions=[("reject", "RENAME TABLE")],
        rows=[{"id": 1, "a": "x"}],
        statuses=["rejected"],
        waiting=[1],
    ),
    "kept_too": Case(rounds=[], rows=[{"id": 3, "a": "y"}, {"id": 4, "a": "z"}], statuses=[]),
    "clauses": Case(
        rounds=[
            [(1, put(id=1, a="x", b="y", c=5))],
            [
                (
                    5,
                    "ALTER TABLE clauses ADD COLUMN e int DEFAULT 1, DROP COLUMN b, "
                    "CHANGE c d bigint, ADD INDEX i (a)",
                ),
                (6, put({"d": "bigint", "e": INT}, id=2, a="z", d=6, e=2)),
            ],
        ],
        decisions=[("approve", "ADD COLUMN e")],
        rows=[{"id": 1, "a": "x", "d": 5, "e": 1}, {"id": 2, "a": "z", "d": 6, "e": 2}],
        statuses=["applied"],
    ),
    # 50: logged, and nothing else.
    "harmless": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "CREATE INDEX i ON harmless (a)"),
                (6, "ALTER TABLE harmless COMMENT 'rows'"),
                (7, "ALTER TABLE harmless ALTER a SET DEFAULT 'q'"),
                (8, "ALTER TABLE harmless MODIFY a varchar(9) NOT NULL"),
                (9, "CREATE TABLE harmless_too LIKE harmless"),
                (10, put(id=2, a="y")),
            ],
        ],
        rows=[{"id": 1, "a": "x"}, {"id": 2, "a": "y"}],
        statuses=["ignored", "ignored", "ignored", "ignored"],
    ),
    "ghosted": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (4, ("_ghosted_gho", "CREATE TABLE _ghosted_gho LIKE ghosted")),
                (5, ("_ghosted_gho", "ALTER TABLE _ghosted_gho ADD COLUMN c int DEFAULT 7")),
                (6, put(id=2, a="between")),
                (7, "RENAME TABLE ghosted TO _ghosted_del, _ghosted_gho TO ghosted"),
                (8, put(id=3, a="z", c=8)),
            ],
        ],
        rows=[
            {"id": 1, "a": "x", "c": 7},
            {"id": 2, "a": "between", "c": 7},
            {"id": 3, "a": "z", "c": 8},
        ],
        statuses=["ignored", "applied"],
    ),
    # It counts where its table takes the name, not where the shadow was altered.
    "ghostly": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (4, ("_ghostly_gho", "CREATE TABLE _ghostly_gho LIKE ghostly")),
                (5, ("_ghostly_gho", "ALTER TABLE _ghostly_gho CHANGE a b varchar(20)")),
                (6, now(id=1, a="x2")),
                (6, put(id=2, a="between")),
                (7, "RENAME TABLE ghostly TO _ghostly_del, _ghostly_gho TO ghostly"),
            ],
            [(8, put(id=3, b="after"))],
        ],
        decisions=[("approve", "CHANGE")],
        rows=[{"id": 1, "b": "x2"}, {"id": 2, "b": "between"}, {"id": 3, "b": "after"}],
        statuses=["ignored", "applied"],
    ),
    "unghosted": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (4, ("_unghosted_gho", "CREATE TABLE _unghosted_gho LIKE unghosted")),
                (5, ("_unghosted_gho", "ALTER TABLE _unghosted_gho ADD COLUMN c int DEFAULT 7")),
                (6, ("_unghosted_gho", "DROP TABLE _unghosted_gho")),
                (7, put(id=2, a="y")),
            ],
        ],
        rows=[{"id": 1, "a": "x"}, {"id": 2, "a": "y"}],
        statuses=[],
    ),
    # Words of SQL, dots and capitals in a name.
    "named": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, "ALTER TABLE named ADD COLUMN `select.from` int DEFAULT 7, ADD `Order` int"),
                (
                    6,
                    put(
                        {"select.from": INT, "order": INT},
                        ("id",),
                        id=2,
                        a="y",
                        **{"select.from": 8, "order": 9},
                    ),
                ),
            ],
        ],
        rows=[
            {"id": 1, "a": "x", "select.from": 7, "Order": None},
            {"id": 2, "a": "y", "select.from": 8, "Order": 9},
        ],
        statuses=["applied"],
    ),
    "oracle": Case(
        rounds=[
            [(1, put(id=1, a="x"))],
            [
                (5, 'ALTER TABLE "ORACLE" ADD (C NUMBER(10,2) DEFAULT 1.5, D VARCHAR2(9))'),
                (6, put({"c": "decimal(10,2)", "d": TEXT}, id=2, a="y", c="2.00", d="d")),
            ],
        ],
        rows=[
            {"id": 1, "a": "x", "C": "1.50", "D": None},
            {"id": 2, "a": "y", "C": "2.00", "D": "d"},
        ],
        statuses=["applied"],
    ),
    # 52: the DROP comes after the ADD behind it, and what that brought stays.
    "dropped_late": Case(
        rounds=[
            [(1, put(id=1, a="x", c=5))],
            [
                (9, "ALTER TABLE dropped_late ADD COLUMN c int DEFAULT 7"),
                (10, put(id=2, a="y", c=8)),
            ],
            [(5, "ALTER TABLE dropped_late DROP COLUMN c")],
        ],
        options="ddl: {destructive: apply}",
        rows=[{"id": 1, "a": "x", "c": 7}, {"id": 2, "a": "y", "c": 8}],
        statuses=["applied", "applied"],
    ),
}
BASE = {"id": INT, "a": TEXT, "b": TEXT, "c": INT, "n": INT}


SLOW = {
    *("born_again", "born_renamed_key", "clauses", "dropped", "dropped_late", "ghosted", "named"),
    *("harmless", "images_again", "images_renamed", "kept", "kept_too", "key_mixed", "retyped"),
    *("key_shortened", "key_untold", "marked_again", "narrowed", "oracle", "part_of_key", "turned"),
    *("rekeyed", "renamed_key_at_once", "sharded_key", "turned_old", "unghosted", "versions_again"),
    *("born", "widened", "images_retyped", "images_narrowed", "thawed", "renamed", "unfilled"),
    *("unsaid_key", "again"),
}
"""Cases whose every way through the code others take: left to `make test-long`."""
EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]


def messages(table: str, number: int, case: Case) -> Iterator[tuple[int, int, Any]]:
    """(offset, partition, message) of one round of a case; a DDL goes to four partitions."""
    for place, (es, what) in enumerate(case.rounds[number] if number < len(case.rounds) else ()):
        offset = 100 * number + place
        of, what = what if isinstance(what, tuple) else (table, what)
        if isinstance(what, dict):
            row = {k: None if v is None else str(v) for k, v in what["row"].items()}
            types = {k: (what["types"] or {}).get(k) or BASE.get(k, INT) for k in row}
            sent = canal(
                of,
                what["type"],
                row,
                es=T0 + 1000 * es,
                id_=offset,
                old=what.get("old", {}) if what["type"] == "UPDATE" else None,
                types=types,
                keys=what["keys"],
            )
            yield offset, es % 4, sent
        else:
            for partition in range(4):
                yield offset, partition, canal_ddl(of, what, es=T0 + 1000 * es, id_=offset)


def asked_for(items: Sequence[pytest.Item]) -> dict[str, Case]:
    """The cases that the chosen tests look at, and all that are not slow."""
    own = [item for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]
    named = {item.callspec.params.get("table") for item in own}
    return {name: case for name, case in CASES.items() if name in named or name not in SLOW}


def land(project: Project, number: int, cases: Mapping[str, Case]) -> None:
    lines = [
        {
            **{"topic": table, "partition": partition, "offset": offset, "ts": T0 + number},
            "key": None,
            "payload": json.dumps(message),
        }
        for table, case in cases.items()
        for offset, partition, message in messages(table, number, case)
    ]
    project.land(f"{number}.jsonl", lines)


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, request: pytest.FixtureRequest
) -> Any:
    """The project after all rounds and decisions, what was pending before them, what came of the
    decisions and the runs, and the ledger at the end."""
    cases = asked_for(request.session.items)
    with project_in(tmp_path_factory.mktemp("review")) as project:
        project.write("conf/sources/shop.yml", SOURCE)
        entries = [f"  - {{from: shop.{t}, {c.options}}}" for t, c in cases.items() if c.options]
        project.write(
            "conf/tables/shop.yml",
            "\n".join(["source: shop", "tables:", "  - from: '*'", *entries]),
        )
        answers = []
        land(project, 0, cases)
        answers.append(project.ingest("run"))
        land(project, 1, cases)
        answers.append(project.ingest("run"))
        pending = project.ingest("ddl", "list", "--json").records
        decided = decide(project, pending, cases)
        land(project, 2, cases)
        answers.append(project.ingest("run"))
        answers.append(project.ingest("run"))
        ledger = project.ingest("ddl", "list", "--json").records
    return project, pending, decided, answers, ledger


def decide(
    project: Project, pending: list[Row], cases: Mapping[str, Case]
) -> list[tuple[str, Any]]:
    """All decisions, one call for each verb and turn."""
    done = []
    for turn in range(max(len(case.decisions) for case in cases.values())):
        for verb in ("approve", "reject", "approve!"):
            ids = []
            for table, case in cases.items():
                if turn < len(case.decisions) and case.decisions[turn][0] == verb:
                    (entry,) = [
                        e
                        for e in pending
                        if e["target"] == f"shop_{table}"
                        and case.decisions[turn][1] in (e["statement"] or "")
                    ]
                    ids.append(entry["id"])
            if ids:
                done.append(
                    (
                        verb,
                        project.ingest(
                            "ddl", verb.strip("!"), *ids, "--by", "ada", "--why", "agreed"
                        ),
                    )
                )
    return done


def test_runs_and_decisions(played: Any) -> None:
    _, _, decided, answers, _ = played
    assert [answer.code for answer in answers] == [0, 0, 0, 0], [a.err for a in answers]
    # All that came for some tables waits among the rejects for a decision.
    assert "set aside: `ingest rejects list --source shop` shows why" in answers[1].err
    assert [(verb, answer.code) for verb, answer in decided] == [
        ("approve", 0),
        ("reject", 0),
        ("approve!", 1),
        ("approve", 0),
    ], [a.err for _, a in decided]


@pytest.mark.parametrize("table", EACH)
def test_rows(played: Any, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    query = f"SELECT * EXCEPT (_pos, _event_time, _source, _source_table) FROM gold.shop_{table}"
    found = project.ingest("sql", query, "--json").records
    by_columns = [sorted(row.items()) for row in CASES[table].rows]
    assert sorted((sorted(row.items()) for row in found), key=str) == sorted(by_columns, key=str)


@pytest.mark.parametrize("table", EACH)
def test_ledger(played: Any, table: str) -> None:
    _, pending, _, _, listed = played
    own = [entry for entry in listed if entry["table"].lower() == table]
    assert [entry["status"] for entry in own] == list(CASES[table].statuses), own
    waiting = [
        e["waiting_rows"] for e in pending if e["table"] == table and e["status"] == "pending"
    ]
    if CASES[table].waiting:
        assert waiting == list(CASES[table].waiting)


@pytest.mark.parametrize(
    "table",
    [
        *("added", "called", "key_added", "renamed", "retyped_key", "unsaid_key"),
        *("versions_added", "versions_dropped", "versions_narrowed", "images_narrowed"),
    ],
)
def test_history_makes_the_same(
    played: Any, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    answer = project.ingest("reconcile", f"shop_{table}", "--json")
    assert answer.code == 0, answer


def test_history_has_the_names_of_today(played: Any, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    query = "SELECT id, d, after FROM history.shop_renamed ORDER BY pos"
    found = project.ingest("sql", query, "--json").records
    assert [(row["id"], row["d"]) for row in found] == [
        *((1, 5), (2, 6), (1, 9), (2, 10)),
        *((3, 7), (2, 8)),
    ]
    # What came stands as it came.
    assert [sorted(row["after"]) for row in found] == [["a", "c", "id"]] * 4 + [
        ["a", "d", "id"]
    ] * 2


def test_history_of_a_key_that_was_called_otherwise(
    played: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    for value in ("1", "01"):
        answer = project.ingest("history", "shop_renamed_key", "--key", f"pk={value}", "--json")
        assert [(row["pk"], row["a"]) for row in answer.records] == [(1, "x"), (1, "y")]


def test_states_that_fit_no_more_are_set_aside(
    played: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    listed = project.ingest("rejects", "list", "--json").records
    for table in ("shop_versions_narrowed", "shop_images_narrowed"):
        [reject] = [reject for reject in listed if reject["target"] == table]
        assert (reject["code"], reject["status"]) == ("type_mismatch", "open")


def test_nothing_is_parked(played: Any, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(played[0].folder, capsys.readouterr)
    assert [r for r in project.ingest("status", "--json").records if r.get("parked")] == []
