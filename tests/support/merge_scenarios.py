"""Scenarios of gold as folders of data, all of them run together: one warehouse, batch by batch.

`tests/merge/<scenario>/` holds `1.jsonl`, `2.jsonl`, …, one file a micro-batch, each line a message
of table `merge.<scenario>` or, where partition and offset matter, `{"partition", "offset", "ts",
"key", "headers", "payload"}`, as kcat has them but with the payload as it is; and what must come of
them:

- `table.yml`: options of the table's entry; `source:` in it those of a source, which scenarios with
  the same ones share; `slow: true`: left to `make test-long`, since every way that it takes through
  the code is one that others take
- `gold.jsonl`: every row and column, in key order; columns that gold adds only where they are the
  point. `gold.<n>.jsonl`: the same after batch n
- `rejects.jsonl`, `ddl.jsonl`, `history.jsonl`: whole lists, of each row what is the point
- `progress.jsonl`: per batch, what is the point of the run's record

Adding a scenario needs no Python.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from pyarrow.parquet import ParquetFile

from ingest.config.load import Config, load
from ingest.config.yaml import read
from pipelines.bronze import source as bronze
from pipelines.gold import run as gold
from pipelines.gold.known_targets import known_targets
from pipelines.operations.reconcile import reconcile
from pipelines.operations.views import history_frame
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[1] / "merge"
START = 1_700_000_000_000
Row = dict[str, Any]


class Captured(msgspec.Struct, forbid_unknown_fields=True):
    """A line with its coordinates; `payload` keeps its digits."""

    payload: msgspec.Raw
    partition: int = 0
    offset: int | None = None
    ts: int | None = None
    key: str | None = None
    headers: list[str] = []


class Scenario(NamedTuple):
    """One folder. `entry`, `source` and `slow` are what `table.yml` says."""

    name: str
    folder: Path
    entry: Row
    source: Row
    slow: bool = False

    def batch(self, number: int) -> list[bytes]:
        """The lines of a micro-batch."""
        file = self.folder / f"{number}.jsonl"
        return file.read_bytes().splitlines() if file.exists() else []

    def expected(self, name: str) -> list[Row] | None:
        """The rows of `<name>.jsonl`; None where the scenario has no such file."""
        file = self.folder / f"{name}.jsonl"
        if not file.exists():
            return None
        return [json.loads(line) for line in file.read_text().splitlines()]


def scenarios(folder: Path = FOLDER) -> list[Scenario]:
    """All of them, by name."""
    found = []
    for place in sorted(file.parent for file in folder.glob("*/table.yml")):
        entry = read(place / "table.yml", environ={})[0].value or {}
        source, slow = entry.pop("source", {}), entry.pop("slow", False)
        found.append(Scenario(place.name, place, entry, source, slow))
    return found


class Laboratory:
    """The one warehouse, in `root`."""

    def __init__(self, root: Path, spark: SparkSession, played: list[Scenario]) -> None:
        self._root = root
        self._spark = spark
        self._offsets: dict[tuple[str, int], int] = {}
        self.played = played
        self._configure()

    @cached_property
    def config(self) -> Config:
        """The configuration of all scenarios."""
        return load(self._root / "conf", environ={})

    @cached_property
    def warehouse(self) -> Warehouse:
        """Where the tables are."""
        return Warehouse(self.config, self._spark)

    def land(self, number: int) -> None:
        """Every scenario's batch `number`, one file a source."""
        for name, sharing in self._sources().items():
            lines = [line for scenario in sharing for line in self._captured(scenario, number)]
            if lines:
                file = self._root / "landing" / name / f"{number:03d}.jsonl"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"\n".join(lines) + b"\n")

    def decode(self) -> None:
        """Bronze and silver, once."""
        for source in self.config.sources.values():
            bronze.ingest_source(self.warehouse, source)
            stream.decode_source(self.warehouse, source)

    def merge(
        self, targets: Sequence[str] | None = None, *, sources: Sequence[str] | None = None
    ) -> list[gold.Merged]:
        """Gold, once."""
        sources = list(self.config.sources) if sources is None else sources
        return gold.merge_tables(self.warehouse, sources=sources, targets=targets)

    def forget_silver(self) -> None:
        """Lose silver's checkpoints: every message is decoded and appended once more."""
        shutil.rmtree(self.warehouse.checkpoint("silver"))

    def forget_gold(self) -> None:
        """Lose gold's progress: every batch is applied once more, all at once."""
        shutil.move(self.warehouse.folder("gold", "_progress"), self._root / "progress")
        self._spark.catalog.clearCache()

    def remember_gold(self) -> None:
        """Have gold's progress as it was before it was lost."""
        shutil.rmtree(self.warehouse.folder("gold", "_progress"))
        shutil.move(self._root / "progress", self.warehouse.folder("gold", "_progress"))
        self.begin_again()

    def begin_again(self) -> None:
        """Know of the tables only what they hold, as another process does."""
        self._spark.catalog.clearCache()
        jvm = self._spark._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.warehouse = Warehouse(self.config, self._spark)

    def rows(self, target: str) -> list[Row]:
        """A gold table, in key order; none where it was never made.

        Read by Delta's protocol and not by Spark, of which so many small queries take minutes.
        """
        files: dict[str, Row] = {}
        fields: list[Row] = []
        for action in self.log(target):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
            if "add" in action:
                # The only columns that part a table are boolean.
                parts = action["add"]["partitionValues"]
                files[action["add"]["path"]] = {n: json.loads(text) for n, text in parts.items()}
            if "remove" in action:
                files.pop(action["remove"]["path"])
        found = []
        for path, parts in files.items():
            file = self.warehouse.folder("gold", target) / unquote(path)
            read = ParquetFile(file, coerce_int96_timestamp_unit="us").read().to_pylist()
            found += [plain({f["name"]: _stored(row | parts, f) for f in fields}) for row in read]
        return sorted(found, key=json.dumps)

    def log(self, target: str) -> list[Row]:
        """Every action of the target's Delta log."""
        log = self.warehouse.folder("gold", target) / "_delta_log"
        files = sorted(log.glob("*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def rejects(self) -> dict[str, list[Row]]:
        """Gold's rejects as they stand, by target."""
        if not self.warehouse.exists("gold", "_rejects"):
            return {}
        found = records(self.warehouse.read("gold", "_rejects"))
        ordered = sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))
        return _grouped(ordered, "target")

    def ddl(self) -> dict[str, list[Row]]:
        """The ledger, by target."""
        if not self.warehouse.exists("gold", "_ddl"):
            return {}
        found = records(self.warehouse.read("gold", "_ddl"))
        return _grouped(sorted(found, key=lambda row: (row["at"], row["pos"] or [])), "target")

    def progress(self) -> list[dict[str, Row]]:
        """What each round recorded, by target, in order."""
        found = records(self.warehouse.read("gold", "_progress"))
        rounds = sorted({row["at"] for row in found})
        return [{r["target"]: r for r in found if r["at"] == at} for at in rounds]

    def history(self, target: str) -> list[Row]:
        """Every change of a target, in order."""
        frame, _ = history_frame(self.warehouse, target, key={})
        return list(map(plain, records(frame)))

    def differing(self, targets: Iterable[str]) -> dict[str, str]:
        """The targets that are not what history makes of them, and how they differ."""
        fed = known_targets(self.warehouse).fed
        found = {target: reconcile(self.warehouse, fed[target]) for target in targets}
        return {
            target: f"{compared.summary} {compared.differences}"
            for target, compared in found.items()
            if not compared.equal
        }

    def _sources(self) -> dict[str, list[Scenario]]:
        """Scenarios by the source they share; options that name tables are put together."""
        found: dict[str, list[Scenario]] = {}
        for scenario in self.played:
            options = {k: v for k, v in scenario.source.items() if k not in ("keys", "columns")}
            found.setdefault(json.dumps(options, sort_keys=True), []).append(scenario)
        return {f"s{number}": sharing for number, sharing in enumerate(found.values())}

    def _configure(self) -> None:
        for folder in ("sources", "tables"):
            (self._root / "conf" / folder).mkdir(parents=True)
        for name, sharing in self._sources().items():
            source: Row = {"name": name}
            for scenario in sharing:
                for option, value in scenario.source.items():
                    if option in ("keys", "columns"):
                        source.setdefault(option, {}).update(value)
                    else:
                        source[option] = value
            source["files"] = {
                "path": f"landing/{name}/*.jsonl",
                "framing": "kcat",
                "order": "path",
            }
            entries = [{"from": f"*.{s.name}", "target": s.name, **s.entry} for s in sharing]
            tables = {"source": name, "tables": entries}
            # JSON is YAML.
            (self._root / f"conf/sources/{name}.yml").write_text(json.dumps(source))
            (self._root / f"conf/tables/{name}.yml").write_text(json.dumps(tables))

    def _captured(self, scenario: Scenario, number: int) -> Iterator[bytes]:
        for line in scenario.batch(number):
            try:
                given = msgspec.json.decode(line, type=Captured)
            except msgspec.ValidationError:
                given = Captured(payload=msgspec.Raw(line))
            place = scenario.name, given.partition
            offset = given.offset if given.offset is not None else self._offsets.get(place, 0)
            self._offsets[place] = offset + 1
            captured = {
                "topic": scenario.name,
                "partition": given.partition,
                "offset": offset,
                "ts": START + (given.ts if given.ts is not None else 1_000 * number + offset),
                "key": given.key,
                "headers": given.headers,
                "payload": bytes(given.payload).decode(),
            }
            yield json.dumps(captured, ensure_ascii=False).encode()


def _stored(row: Row, field: Row) -> Any:
    value = row.get(field["metadata"].get("delta.columnMapping.physicalName", field["name"]))
    if value is not None and field["type"] == "timestamp":
        return value.replace(tzinfo=UTC)
    return value


def plain(row: Mapping[str, Any]) -> Row:
    """A row as JSON has it: decimals as text, times as ISO-8601, bytes as base64."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(plain(row))
    return found
