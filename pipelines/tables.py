"""Where the tables are, and what is done to them: names, creation, reading, appending.

Locally a table is its folder under the warehouse (`<warehouse>/<schema>/<table>`), on Databricks a
name in the catalog: the rest of the product asks here for a table's SQL name and never builds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.errors import PlatformError
from ingest.events import SILVER
from ingest.settings import Settings

T = TypeVar("T")
_SHUFFLE = "spark.sql.shuffle.partitions"
_FEW = 50_000
BRONZE = (
    ("source", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", "array<struct<key:string,value:binary>>"),
    ("epoch", "bigint"),
    ("ingested_at", "timestamp"),
)
"""`bronze.messages`: every message exactly as received, with the epoch of its source then."""


def quote(*parts: str) -> str:
    """A name of several parts, each in backquotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


class Commit(NamedTuple):
    """One commit of a table's log: `note` is its user metadata, `metrics` Delta's own counts."""

    version: int
    note: str | None
    metrics: Mapping[str, str]


class Warehouse:
    """The tables of one configuration, in one Spark session."""

    def __init__(self, settings: Settings, session: SparkSession) -> None:
        self.settings = settings
        self.session = session
        self._kept: dict[tuple[str, str], tuple[int, object]] = {}

    @property
    def local(self) -> bool:
        """Whether tables are folders."""
        return self.settings.catalog is None

    @contextmanager
    def shuffling(self, rows: int = 0) -> Iterator[None]:
        """Work on so many rows: of few, a second part of every shuffle costs a third more CPU and
        saves no time. A platform's own settings stand."""
        conf = self.session.conf
        before = conf.get(_SHUFFLE) if self.local and rows <= _FEW else None
        if before is not None:
            conf.set(_SHUFFLE, "1")
        try:
            yield
        finally:
            if before is not None:
                conf.set(_SHUFFLE, before)

    def schema(self, layer: str) -> str:
        """The schema that holds `layer` (bronze, silver, gold or history)."""
        return str(getattr(self.settings.schemas, layer))

    def folder(self, layer: str, table: str) -> Path:
        """The folder of a local table."""
        return Path(self.settings.warehouse) / self.schema(layer) / table

    def name(self, layer: str, table: str) -> str:
        """The SQL name of a table: a path locally, a catalog name elsewhere."""
        if self.settings.catalog is None:
            return f"delta.{quote(str(self.folder(layer, table)))}"
        return quote(self.settings.catalog, self.schema(layer), table)

    def exists(self, layer: str, table: str) -> bool:
        """Whether the table has been created."""
        if self.local:
            return any((self.folder(layer, table) / "_delta_log").glob("*.json"))
        return self.session.catalog.tableExists(self.name(layer, table).replace("`", ""))

    def read(self, layer: str, table: str) -> DataFrame:
        """The table as it is now."""
        return self.session.table(self.name(layer, table))

    def create(
        self,
        layer: str,
        table: str,
        columns: Iterable[tuple[str, str]],
        *,
        partitioned_by: Sequence[str] = (),
        properties: dict[str, str] | None = None,
    ) -> None:
        """Create the table unless it exists."""
        if self.exists(layer, table):
            return
        if self.local:
            # What a creation left that failed, say for want of space: Delta takes it for a table.
            log = self.folder(layer, table) / "_delta_log"
            for empty in (log / "_staged_commits", log):
                with suppress(OSError):
                    empty.rmdir()
        else:
            assert self.settings.catalog is not None
            place = quote(self.settings.catalog, self.schema(layer))
            self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {place}")
        listed = ", ".join(f"{quote(name)} {type_}" for name, type_ in columns)
        partition = f" PARTITIONED BY ({', '.join(map(quote, partitioned_by))})"
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or {}).items())
        self.session.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name(layer, table)} ({listed}) USING DELTA"
            + (partition if partitioned_by else "")
            + (f" TBLPROPERTIES ({pairs})" if pairs else "")
        )

    def append(
        self,
        frame: DataFrame,
        layer: str,
        table: str,
        *,
        once: tuple[str, int] | None = None,
        note: int | None = None,
    ) -> None:
        """Append rows. `once` = (writer, number): its mark in the table's log, see `appended`;
        `note` stands beside it, see `last_note`.

        In a catalog, Delta also skips a number not above the writer's last. Locally that would
        double the cost of a small append, since the writer is looked up in the table's whole state.
        """
        writer = frame.write.format("delta").mode("append")
        if once is not None:
            writer = writer.option("userMetadata", f"{_mark(once)} {note}")
            if not self.local:
                writer = writer.option("txnAppId", once[0]).option("txnVersion", once[1])
        if self.local:
            writer.save(str(self.folder(layer, table)))
        else:
            writer.saveAsTable(self.name(layer, table))

    def appended(self, layer: str, table: str, once: tuple[str, int]) -> bool:
        """Whether the table's log has an append with this mark; for what a killed run left."""
        history = self.session.sql(f"DESCRIBE HISTORY {self.name(layer, table)}")
        return not history.where(F.col("userMetadata").startswith(f"{_mark(once)} ")).isEmpty()

    def last_note(self, layer: str, table: str) -> int | None:
        """The note of the table's newest commit; None where that commit has none."""
        _, _, note = (self.last_commit(layer, table).note or "").partition(" ")
        return int(note) if note.isdigit() else None

    def last_commit(self, layer: str, table: str) -> Commit:
        """The newest commit. A local table's log is read as it lies there: a query of it costs a
        quarter of a CPU second."""
        if self.local:
            log = self.folder(layer, table) / "_delta_log"
            newest = max(int(file.stem) for file in log.glob("*.json") if file.stem.isdigit())
            lines = (log / f"{newest:020}.json").read_bytes().splitlines()
            infos = [orjson.loads(line)["commitInfo"] for line in lines if b'"commitInfo"' in line]
            info = infos[0] if infos else {}
            return Commit(newest, info.get("userMetadata"), info.get("operationMetrics") or {})
        row = self.session.sql(f"DESCRIBE HISTORY {self.name(layer, table)} LIMIT 1").first()
        assert row is not None
        return Commit(row["version"], row["userMetadata"], row["operationMetrics"] or {})

    def kept(self, layer: str, table: str, read: Callable[[], T]) -> T:
        """What `read` gives of the table; asked again only when the table has changed."""
        version = self.last_commit(layer, table).version
        known = self._kept.get((layer, table))
        if known is None or known[0] != version:
            known = (version, read())
            self._kept[layer, table] = known
        return cast(T, known[1])

    def keep(self, layer: str, table: str, what: object) -> None:
        """`what` is what a read of the table would give, after its only writer's append."""
        self._kept[layer, table] = (self.last_commit(layer, table).version, what)

    def checkpoint(self, *parts: str) -> str:
        """The folder of a stream's checkpoint."""
        assert self.settings.checkpoints is not None, "config.load fills it in"
        return str(Path(self.settings.checkpoints, *parts))


def _mark(once: tuple[str, int]) -> str:
    return f"{once[0]}/{once[1]}"


def create_bronze(warehouse: Warehouse) -> None:
    """`bronze.messages`, one partition a source, so that sources do not read each other's files."""
    warehouse.create(
        "bronze",
        "messages",
        BRONZE,
        partitioned_by=["source"],
        properties={"delta.dataSkippingNumIndexedCols": "5"},
    )


def create_silver(warehouse: Warehouse) -> None:
    """`silver.cdc`, with file statistics on what finds a table's or a key's rows."""
    statistics = "kind,db,schema,table,op,epoch,s1,event_time,batch,key_hash,topic,partition,offset"
    warehouse.create(
        "silver",
        "cdc",
        [(column.name, column.type) for column in SILVER],
        partitioned_by=["source"],
        properties={"delta.dataSkippingStatsColumns": statistics},
    )


def writable(settings: Settings) -> None:
    """Raise PlatformError unless the local warehouse can be written."""
    if settings.catalog is not None:
        return
    folder = Path(settings.warehouse)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / "._writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PlatformError(
            f"expected to write to the warehouse {folder}, got: {error.strerror}; choose another "
            "with --warehouse or in conf/ingest.yml"
        ) from None
