"""A statement that changes how values are written which only `columns:` of the source can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.ddl.parse import parse
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable
from ingest.position import Pos
from pipelines.gold.encodings import check_encodings
from pipelines.silver.pending import BatchStats, ColumnValues

TABLE = SourceTable("crm", "crm", None, "clients")
DECLARED = "decimal(12,2)"


def at(place: int) -> Pos:
    return (0, 1, place, 0, 0, 0, 0, 0, 0, 0, 1)


def check(
    *statements: str,
    met: Callable[[ColumnValues], bool] = lambda doubt: False,
    place: int = 5,
    newest: int = 9,
    oldest: int | None = None,
    came: tuple[str, ...] = (DECLARED,),
    format_: str = "debezium",
    **options: Any,
) -> None:
    """Check a batch up to `newest` behind statements, whose changes came with types `came`."""
    source = Source.model_validate(
        {
            "name": "crm",
            "format": "debezium",
            "files": {"path": "x"},
            "columns": {
                "crm.clients": {"Balance": DECLARED, "born": "date", "seen": "datetime(6)"}
            },
            "options": {"decimal_handling": "precise", **options},
        }
    )
    nothing: dict[str, Any] = dict.fromkeys(BatchStats._fields, 0)
    lowest = at(oldest) if oldest is not None else None
    positions = {"lowest": lowest, "highest": at(newest)}
    stats = BatchStats(**{**nothing, "formats": (format_,), **positions})
    check_encodings(
        source,
        TABLE,
        [
            (at(place + n), parse(text, dialect="mysql", db="crm", schema=None, table="clients"))
            for n, text in enumerate(statements)
        ],
        types=[
            [
                ColumnType("balance", text, "decimal(12,2)"),
                ColumnType("born", "date", "date"),
                ColumnType("seen", "datetime(6)", "timestamp_ntz"),
            ]
            for text in came
        ],
        stats=[stats],
        met=met,
    )


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)", "decimal(16,4)"),
        ("ALTER TABLE clients CHANGE balance BALANCE numeric(12)", "numeric(12)"),
    ],
)
def test_a_decimal_that_would_be_read_with_a_wrong_point_is_parked(
    statement: str, new: str
) -> None:
    with pytest.raises(TableError) as error:
        check(statement)
    assert str(error.value).startswith(
        "expected crm.clients.Balance to stay decimal(12,2), as `columns:` of source crm has it, "
        f"got a statement that makes it {new}: "
    )
    assert str(error.value).endswith("read a new snapshot from new topics or files")


@pytest.mark.parametrize("new", ["decimal(16,4)", "decimal(16)", "numeric(10,1)"])
def test_a_decimal_that_may_be_text_parks_where_it_has_the_digits_of_the_declaration(
    new: str,
) -> None:
    asked = []

    def met(doubt: ColumnValues) -> bool:
        asked.append(doubt)
        return True

    statement = f"ALTER TABLE clients MODIFY balance {new}"
    with pytest.raises(TableError) as error:
        check(statement, decimal_handling="auto", met=met)
    assert "Where decimals are text, set `options: {decimal_handling: string}`." in str(error.value)
    assert asked == [ColumnValues("Balance", at(5), None, 2)]
    check(statement, decimal_handling="auto")


@pytest.mark.parametrize("handling", ["auto", "precise"])
def test_a_point_that_was_moved_back_leaves_what_came_between(handling: str) -> None:
    asked = []

    def met(doubt: ColumnValues) -> bool:
        asked.append(doubt)
        return len(asked) > 1

    there = "ALTER TABLE clients MODIFY balance decimal(16,4)"
    back = "ALTER TABLE clients MODIFY balance decimal(16,2)"
    check(there, back, decimal_handling=handling, met=met)
    with pytest.raises(TableError, match=r"makes it decimal\(16,4\)"):
        check(there, back, decimal_handling=handling, met=met)
    digits = 2 if handling == "auto" else None
    assert asked == [ColumnValues("Balance", at(5), at(6), digits)] * 2
    # Changes that all lie behind it are not asked for, however many batches of them come.
    check(there, back, decimal_handling=handling, met=met, oldest=6)
    assert len(asked) == 2
    with pytest.raises(TableError):
        check(there, back, decimal_handling=handling, met=met, oldest=5)


@pytest.mark.parametrize("new", ["datetime", "datetime(3)", "date"])
def test_a_time_that_would_be_read_in_another_unit_is_parked(new: str) -> None:
    statement = f"ALTER TABLE clients MODIFY seen {new}"
    with pytest.raises(TableError, match=r"expected crm.clients.seen to stay datetime\(6\)"):
        check(statement)
    check(statement, time_precision="isostring")


@pytest.mark.parametrize(
    ("statement", "more"),
    [
        # The point stays; another column; no change behind it.
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,2) NOT NULL", {}),
        ("ALTER TABLE clients MODIFY COLUMN born varchar(20)", {}),
        ("ALTER TABLE clients MODIFY COLUMN seen datetime(4)", {}),
        ("ALTER TABLE clients MODIFY COLUMN balance double", {}),
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)", {"newest": 5}),
        # The messages say their types, or their decimals are text.
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)", {"came": ("decimal(16,4)",)}),
        (
            "ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)",
            {"came": (DECLARED, "decimal(16,4)")},
        ),
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)", {"came": ()}),
        ("ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)", {"format_": "canal"}),
        (
            "ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)",
            {"decimal_handling": "string"},
        ),
        (
            "ALTER TABLE clients MODIFY COLUMN balance decimal(16,4)",
            {"decimal_handling": "auto"},
        ),
    ],
)
def test_all_else_goes_on(statement: str, more: dict[str, Any]) -> None:
    check(statement, **more)
