"""Tables that are renamed, and names that others have since."""

from __future__ import annotations

import pytest

from ingest.ddl.changes import RenameTable
from ingest.names import SourceTable
from pipelines.ledger.entries import Entry, Status
from pipelines.ledger.renames import renames, taken_again


def table(name: str) -> SourceTable:
    return SourceTable("shop", "shop", None, name)


def renamed(old: str, new: str, at: int, status: Status = "applied") -> Entry:
    return Entry(
        id=f"{old}-{new}",
        table=table(old),
        status=status,
        kind="rename_table",
        pos=(0, 1, at),
        effects=(RenameTable("shop", None, new),),
    )


def created(name: str, at: int) -> Entry:
    return Entry(id=f"create-{name}", table=table(name), kind="create_table", pos=(0, 1, at))


def is_created(entry: Entry) -> bool:
    return entry.kind == "create_table"


@pytest.mark.parametrize(
    ("entries", "mixed"),
    [
        ([renamed("a", "b", 1)], set()),
        ([renamed("a", "b", 1), renamed("b", "c", 2)], set()),
        # Back again, by one step or two.
        ([renamed("a", "b", 1), renamed("b", "a", 2)], set()),
        ([renamed("a", "b", 1), renamed("b", "c", 2), renamed("c", "a", 3)], set()),
        # The same, known by its first name.
        ([renamed("a", "b", 1), renamed("a", "a", 2)], set()),
        # Its name is another's, which was created or renamed behind it.
        ([renamed("a", "b", 1), created("a", 2)], {"a", "b"}),
        ([renamed("a", "b", 1), renamed("c", "a", 1)], {"a", "b", "c"}),
        ([renamed("a", "b", 1, "pending"), renamed("c", "a", 1, "pending")], {"a", "b", "c"}),
        # Before it, or where nobody follows the rename: nothing meets.
        ([created("a", 1), renamed("a", "b", 2)], set()),
        ([renamed("a", "b", 1, "pending"), created("a", 2)], set()),
        ([renamed("a", "b", 1, "rejected"), created("a", 2)], set()),
        ([renamed("a", "b", 1, "rejected"), renamed("c", "a", 1, "rejected")], set()),
        ([renamed("a", "b", 1), renamed("c", "a", 1, "rejected")], set()),
    ],
)
def test_whose_rows_would_meet(entries: list[Entry], mixed: set[str]) -> None:
    for order in (entries, entries[::-1]):
        assert {of.table for of in taken_again(order, is_created)} == mixed


def test_the_sentence_names_both_and_the_way_out() -> None:
    both = [renamed("a", "b", 1), created("a", 2)]
    assert taken_again(both, is_created)[table("a")].why("shop_a") == (
        "shop.a was renamed to shop.b (schema change a-b) and its name is another table's since "
        "(create-a): shop_a would mix the rows of both; `ingest reset shop_a --yes` makes it anew "
        "with the later one's"
    )
    swap = [renamed("a", "b", 1, "pending"), renamed("c", "a", 1, "pending")]
    assert (
        taken_again(swap, is_created)[table("c")]
        .why("shop_c")
        .endswith(
            "by `ingest ddl reject`, rejecting both, shop_c goes on with whatever comes as shop.a"
        )
    )


def test_a_table_is_known_by_its_first_name() -> None:
    entries = [renamed("a", "b", 1), renamed("b", "c", 2)]
    for order in (entries, entries[::-1]):
        assert renames(order) == {table("b"): table("a"), table("c"): table("a")}
