"""Which source tables feed a target."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ingest.names import SourceTable
from pipelines.targets.feeders import feeders
from pipelines.targets.progress import Progress, Watermarks


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
