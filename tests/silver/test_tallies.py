"""What the groups of pending changes come to, whatever order they come in."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.sql import Row

from pipelines.silver.tallies import IMAGES, schemas, tallied

POS = [0, 1, 5]
COUNTS = ("partials", "key_changes", "zero_dates", "no_ops", "keyless", "unhashed", "image_bytes")


def group(kind: str = "change", op: str = "insert", **more: Any) -> dict[str, Any]:
    """A row of the query on pending changes: one row of silver's table `d.t`, in batch 3 at POS."""
    of = {"db": "d", "schema": None, "table": "t", "part": 0, "schema_id": "x", "format": "canal"}
    places = {"lowest": POS, "highest": POS, "newest_row": Row(batch=3, pos=POS)}
    found = {"rows": 1, "first": 3, "last": 3, "newest": 7, "oldest": 7, "widest": 0}
    lists = {"tenants": [], "images": [], "many": False, "key_columns": []}
    said = {"last_key_change": None, "came": None, "columns": None, "last_key": None}
    counts = dict.fromkeys(COUNTS, 0)
    return {**of, "kind": kind, "op": op, **places, **found, **lists, **said, **counts, **more}


def test_a_group_counts_for_what_its_kind_and_operation_are() -> None:
    groups = [
        group(
            rows=4, keyless=1, unhashed=2, images=[["id", "v"]], key_columns=[["id"]], partials=1
        ),
        group(op="delete", highest=[0, 1, 9], last=5, images=[["id"]], image_bytes=8, widest=5),
        group(
            op="truncate", rows=2, keyless=2, unhashed=2, first=4, last=4, newest=None, oldest=-1
        ),
        group("ddl", "ddl", rows=3, first=1, last=9, newest=99, oldest=1, keyless=3, unhashed=3),
        group("schema", "schema", rows=7, tenants=["a"], last=11, widest=2),
    ]
    for ordered in itertools.permutations(groups):
        [found] = tallied(ordered)
        assert (found["db"], found["schema"], found["table"]) == ("d", None, "t")
        assert (found["changes"], found["ddl"]) == (7, 3)
        assert (found["deletes"], found["truncates"]) == (1, 2)
        assert (found["first"], found["batch"], found["changed"], found["last"]) == (3, 5, 5, 9)
        assert (found["logged_first"], found["logged_last"]) == (1, 9)
        assert (found["keyless"], found["unhashed"], found["partials"]) == (1, 2, 1)
        assert (found["lowest"], found["highest"]) == (POS, [0, 1, 9])
        assert found["last_removal"] == [0, 1, 9]
        assert (found["newest"], found["oldest"]) == (7, -1)
        assert (found["images"], found["key_columns"]) == ([("id", "v")], [("id",)])
        assert found["deleted"] == [("id",)]
        assert (found["image_bytes"], found["widest"]) == (8, 5)
        assert (found["formats"], found["tenants"]) == ({"canal"}, {"a"})


def test_a_table_with_statements_alone() -> None:
    [found] = tallied([group("ddl", "ddl", first=2, last=4)])
    assert (found["first"], found["batch"], found["changed"], found["last"]) == (2, 4, None, 4)
    assert (found["changes"], found["lowest"], found["newest"], found["oldest"]) == (0,) + (
        None,
    ) * 3


def test_a_key_change_removes_too_and_parts_are_apart() -> None:
    moved = group(op="update", key_changes=1, last_key_change=[0, 1, 6])
    first, second = tallied([moved, group(op="update", part=1)])
    assert (first["key_changes"], first["last_removal"]) == (1, [0, 1, 6])
    assert (second["key_changes"], second["last_removal"]) == (0, None)


@pytest.mark.parametrize("early", ["schema", "change"])
def test_the_format_is_that_of_the_last_change(early: str) -> None:
    last = group(format="dts", newest_row=Row(batch=3, pos=[0, 1, 6]))
    before = group(early, format="oms_default", newest_row=Row(batch=3, pos=POS))
    later = group("ddl", "ddl", format="maxwell", newest_row=Row(batch=8, pos=None))
    placeless = group(format="dms", newest_row=Row(batch=3, pos=None))
    [found] = tallied([before, placeless, last, later])
    assert found["format"] == "dts"
    assert found["formats"] == {"dts", "dms", *(["oms_default"] if early == "change" else [])}


def test_many_lists_of_names_come_to_each_name_and_one_with_two_spellings() -> None:
    lists = [["id", f"c{number}"] for number in range(IMAGES)]
    [few] = tallied([group(images=lists[:1]), group(op="update", images=lists)])
    assert sorted(few["images"]) == sorted(map(tuple, lists))
    more = [["id", "v", "V"], ["w", "W"]]
    [many] = tallied([group(images=lists), group(op="update", images=more)])
    singles = {("id",), ("v",), ("V",), ("w",), ("W",), *((names[1],) for names in lists)}
    assert set(many["images"][:-1]) == singles
    assert many["images"][-1] == ("id", "v", "V")
    # What Spark has named one by one is of very many, however few there are.
    [told] = tallied(
        [group(images=[["id"], ["v"]], many=True), group(op="update", images=[["w", "x"]])]
    )
    assert set(told["images"]) == {("id",), ("v",), ("w",), ("x",)}


def test_the_key_is_the_one_that_was_named_last() -> None:
    def key(batch: int, *names: str) -> Row:
        return Row(batch=batch, offset=0, partition=0, key_columns=list(names))

    came = Row(batch=1, partition=0, offset=0)
    groups = [
        group("schema", last_key=key(2, "a")),
        group("schema", last_key=key(5, "b"), came=came),
    ]
    for ordered in (groups, groups[::-1]):
        found = schemas(ordered)
        assert found["last_key"] == ["b"]
        assert [listed["came"] for listed in found["types"]] == [came]
    assert schemas([group()]) == {"types": [], "last_key": None}
