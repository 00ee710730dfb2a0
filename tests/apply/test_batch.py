"""Which batches one query of SQL may fold: what `TableBatch.whole` reads from the statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.config.modes import Mode, TargetContract
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.projection import Projection
from pipelines.apply.batch import TableBatch
from pipelines.apply.scd2 import _put_back_by_truncates
from pipelines.apply.watermarks import watermarks_of_both
from pipelines.operations.rebuild import _noted
from pipelines.silver.pending import BatchStats
from pipelines.targets.progress import Progress, Watermarks

TABLE = SourceTable("shop", "shop", None, "parcel")


def batch(
    *,
    deletes: int = 0,
    image: tuple[str, ...] = ("id",),
    watermarks: Watermarks | None = None,
    **more: Any,
) -> TableBatch:
    counts = dict.fromkeys(BatchStats._fields, 0) | {"table": TABLE, "first": 2, "batch": 2}
    nothing = dict.fromkeys(("lowest", "highest", "last_removal", "newest", "oldest", "logged"))
    names = {"images": (image,), "key_columns": (("id",),), "changes": 2, "deletes": deletes}
    names |= {"deleted": ()}
    return TableBatch(
        table=TABLE,
        names=(TABLE,),
        projection=Projection(keys=("id",), columns={"id": "int", "a": "int", "c": "int"}),
        stats=[BatchStats(**(counts | nothing | names | more))],  # type: ignore[arg-type]
        silver="silver.cdc",
        target="shop_parcel",
        target_table="gold.shop_parcel",
        mode="scd1",
        soft=False,
        above=1,
        last=2,
        watermarks=watermarks or Watermarks(),
    )


@pytest.mark.parametrize(
    ("deletes", "image", "whole"),
    [
        (0, ("id", "a"), True),
        (1, ("id", "a", "c"), True),
        # Deleted and inserted again, a row must not keep the `c` it had.
        (1, ("id", "a"), False),
    ],
)
def test_whole(deletes: int, image: tuple[str, ...], whole: bool) -> None:
    assert batch(deletes=deletes, image=image).whole is whole


def test_names_that_only_deletes_have_are_remembered() -> None:
    """Else the key of a deleted row would be NULL, now or when the row is folded again."""
    applied = Watermarks(applied=(5,))
    keyed = batch(images=(), key_columns=(("ID",),), watermarks=applied)
    assert keyed.spellings == ("ID", "id")
    assert batch(images=(), deleted=(("id", "A"),), watermarks=applied).spellings == ("A", "a")
    assert batch(watermarks=applied).spellings == ()


def test_how_a_column_is_spelled_is_known_once_the_target_has_it() -> None:
    """It was excluded, or waited for a decision, while its spelling changed."""
    history = batch(images=(("id", "a"), ("id", "A"), ("ID",)))
    known = Watermarks(applied=(5,), spellings=("ID", "id"))
    both = watermarks_of_both(known, history, last_baseless=None)
    assert both is not None and both.spellings == ("A", "ID", "a", "id")


@pytest.mark.parametrize(("mode", "known"), [("append", (True, True)), ("scd2", (False, False))])
def test_rows_made_of_images_are_compared_by_what_images_never_asked_for(
    mode: Mode, known: tuple[bool, bool]
) -> None:
    """Otherwise a late change of a key that was given up is taken for one of a new row, and a late
    whole image below a partial one for one that lost. A target of rows or versions knows."""
    was = TargetContract(mode, ("id",), ())
    progress = Progress(target="t", source="shop", contract=was, watermarks={"": Watermarks()})
    rebuilt: Any = SimpleNamespace(
        contract=TargetContract("scd1", ("id",), ()),
        route=SimpleNamespace(columns={}, shard_column=None),
        columns={"id": "int"},
        typed_names=("id",),
        batches=[batch(image=("id", "a", "c"), partials=1, unhashed=1)],
    )
    noted = _noted(progress, rebuilt, gone=False).watermarks[""]
    assert (noted.partials, noted.unhashed) == known


@pytest.mark.parametrize(
    ("changes", "image_bytes", "small"),
    [
        (2, 100, True),
        (50_000, 1_000_000, True),
        (50_001, 1_000_000, False),
        # 15,000 changes of 80 KB each: no driver takes them.
        (15_000, 15_000 * 80_000, False),
    ],
)
def test_what_the_driver_judges_is_bounded_in_bytes(
    changes: int, image_bytes: int, small: bool
) -> None:
    assert batch(changes=changes, image_bytes=image_bytes).small is small


def test_history_comes_to_the_driver_where_it_is_known_to_be_little() -> None:
    narrow = batch(watermarks=Watermarks(changes=1_000, widest=400), widest=300)
    assert narrow.history_changes == 1_002
    assert narrow.fits_here(1_002) and not narrow.fits_here(10_000_000)
    # One wide change there ever was may be among any of them.
    assert not batch(watermarks=Watermarks(changes=1_000, widest=80_000)).fits_here(1_002)
    assert not batch(watermarks=Watermarks(changes=1_000, widest=400), widest=80_000).fits_here(
        1_002
    )


@pytest.mark.parametrize(
    ("new", "applied", "asked"),
    [
        # What lies below the last is asked for once, however many there are.
        (range(1, 900), 950, ["below 899"]),
        (range(1, 900), None, ["below 898", "below 899, above it"]),
        (range(1, 900), 500, ["below 500"]),
        ((7,), 9, ["below 7, above it"]),
        ((7,), 5, []),
    ],
)
def test_late_truncates_are_two_questions_at_most(
    new: Iterable[int], applied: int | None, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def below(*_: object, truncate: Pos, above: str | None) -> str:
        return f"below {truncate[0]}" + (", above it" if above is not None else "")

    monkeypatch.setattr("pipelines.apply.scd2.versions_below", below)
    watermarks = Watermarks(applied=(applied,) if applied is not None else None)
    known: dict[tuple[int, ...], int | None] = {(950,): None} if applied == 950 else {}
    versions = replace(
        batch(watermarks=watermarks),
        mode="scd2",
        version=3,
        new_truncates={(pos,): None for pos in new},
        earlier_truncates=known,
    )
    assert _put_back_by_truncates(versions) == asked
