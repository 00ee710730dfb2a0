"""Which source tables feed a target."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ingest.names import SourceTable
from pipelines.targets.feeders import feeders, kept_apart
from pipelines.targets.progress import ParkedTable, Progress, SourceCursor, Watermarks, is_target


def test_a_source_of_another_configuration_feeds_its_target_still() -> None:
    """Two projects may have one warehouse: what one leads to a target is not mixed by the other."""
    routes = {"till": "stock", "shop": "items"}
    config: Any = SimpleNamespace(
        sources=routes, route=lambda source, **_: SimpleNamespace(target=routes[source])
    )

    def fed(source: str) -> Progress:
        return Progress(
            target="Stock",
            source=source,
            batch=3,
            tables={("wms", None, "stock"): 3},
            watermarks={"wms.stock": Watermarks()},
        )

    # Who is led elsewhere by now feeds it no more.
    told = {(source, "Stock"): fed(source) for source in ("depot", "till", "shop")}
    tables = [SourceTable(source, "wms", None, "stock") for source in ("depot", "till")]
    assert feeders(config, told) == {"stock": tables}
    # Of whole transactions, a part of the first batch may be all that is published.
    first = {
        of: replace(row, batch=0, below=(0, 1, 9), partly_applied=1) for of, row in told.items()
    }
    assert feeders(config, first) == {"stock": tables}
    none = {of: replace(row, batch=0) for of, row in told.items()}
    assert feeders(config, none) == {}


def test_a_table_that_is_parked_by_itself_has_a_row_of_its_own_kind() -> None:
    old, new = (SourceTable("shop", "web", None, name) for name in ("old", "new"))
    known: dict[tuple[str, str], Progress] = {
        (row.source, row.target): row
        for row in (
            ParkedTable.of(old, "stock was first"),
            ParkedTable.of(old._replace(source="depot"), "of another source"),
            Progress(target="stock", source="shop").parked("its table is gone"),
            SourceCursor(source="shop"),
        )
    }
    assert [is_target(target) for _, target in known] == [False, False, True, False]
    parked, freed = kept_apart("shop", {new: "stock was first"}, known)
    assert parked == [
        ParkedTable(target="shop:web.new", source="shop", status="parked", error="stock was first")
    ]
    assert freed == [ParkedTable(target="shop:web.old", source="shop")]
    assert kept_apart("shop", {old: "stock was first"}, known)[1] == []
