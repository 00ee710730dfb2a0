"""Which batches one query of SQL may fold: what `Work.whole` reads from the statistics."""

from __future__ import annotations

from typing import cast

import pytest

from ingest.names import SourceTable
from ingest.shape import Shape
from pipelines.progress import Marks
from pipelines.survey import Slice
from pipelines.tables import Warehouse
from pipelines.work import Work

TABLE = SourceTable("shop", "shop", None, "parcel")


def batch(*, deletes: int, image: tuple[str, ...]) -> Work:
    counts = dict.fromkeys(Slice._fields, 0) | {"table": TABLE, "batch": 2, "formats": ("canal",)}
    nothing = dict.fromkeys(("lowest", "highest", "removed", "newest", "oldest"))
    names = {"images": (image,), "key_columns": (("id",),), "changes": 2, "deletes": deletes}
    return Work(
        warehouse=cast(Warehouse, None),
        table=TABLE,
        shape=Shape(keys=("id",), columns={"id": "int", "a": "int", "c": "int"}),
        slices=[Slice._make((counts | nothing | names).values())],
        target="shop_parcel",
        above=1,
        last=2,
        soft=False,
        fresh=False,
        shared=False,
        marks=Marks(),
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
