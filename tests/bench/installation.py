"""An installation of the product in a folder of its own, driven stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from ingest.config.load import Config, load
from pipelines.bronze import source as bronze
from pipelines.gold import run as gold
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream as silver
from tests.bench.processes import Cost, measured
from tests.bench.wire import COLUMNS


class Installation:
    """`conf`, `landing` and `warehouse` in one folder; one source a format, tables as given.

    `merge` are the tables that become gold, all by default; `options` those of their entries.
    """

    def __init__(
        self,
        session: SparkSession,
        folder: Path,
        *,
        sources: Mapping[str, str],
        tables: Iterable[str] = ("orders",),
        warehouse: Path | None = None,
        merge: Iterable[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.landing = folder / "landing"
        keys = {f"shop.{table}": ["id"] for table in tables}
        typed = {f"shop.{table}": dict(COLUMNS) for table in tables}
        place = str(warehouse or folder / "warehouse")
        self._write("ingest.yml", {"warehouse": place})
        for name, format_ in sources.items():
            (self.landing / name).mkdir(parents=True, exist_ok=True)
            source: dict[str, Any] = {"name": name, "format": format_}
            source["files"] = {"path": f"landing/{name}/*.jsonl"}
            if format_ == "debezium":
                source |= {"keys": keys, "columns": typed}
            self._write(f"sources/{name}.yml", source)
            if merge is not None:
                entries = [{"from": f"shop.{table}", **(options or {})} for table in merge]
                self._write(f"tables/{name}.yml", {"source": name, "tables": entries})
        self.config: Config = load(folder / "conf", environ={})
        self.warehouse = Warehouse(self.config, session)

    def bronze(self) -> Cost:
        """Read what has landed."""
        return measured(
            lambda: [bronze.ingest_source(self.warehouse, s) for s in self.config.sources.values()]
        )

    def silver(self) -> Cost:
        """Decode what bronze has."""
        return measured(
            lambda: [silver.decode_source(self.warehouse, s) for s in self.config.sources.values()]
        )

    def gold(self, *, events: int) -> Cost:
        """Merge what silver has, which must be `events` events and no reject."""
        done: list[gold.Merged] = []
        cost = measured(
            lambda: done.extend(
                gold.merge_tables(self.warehouse, sources=list(self.config.sources))
            )
        )
        wrong = [merged for merged in done if merged.error or merged.rejected]
        if wrong or sum(merged.events for merged in done) != events:
            counted = sum(merged.events for merged in done)
            raise AssertionError(f"expected {events} events merged, got {counted}; {wrong[:3]}")
        return cost

    def run(self, *, events: int) -> dict[str, Cost]:
        """All three stages, and what each cost."""
        return {
            "bronze": self.bronze(),
            "silver": self.silver(),
            "gold": self.gold(events=events),
        }

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        file = self.folder / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as opened:
            YAML().dump(content, opened)


def total(stages: Mapping[str, Cost]) -> Cost:
    """The cost of a run."""
    cost = Cost()
    for stage in stages.values():
        cost = cost.plus(stage)
    return cost


def told(stages: Mapping[str, Cost]) -> str:
    """CPU seconds of each stage, of the JVM and of Python."""
    return ", ".join(f"{n} {c.jvm:.1f} JVM + {c.python:.1f} Py" for n, c in stages.items())
