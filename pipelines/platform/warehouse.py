"""Where the tables are, and what is done to them: names, creation, reading, writing.

Locally a table is its folder under the warehouse (`<warehouse>/<schema>/<table>`), on Databricks a
name in the catalog. The rest of the product asks here for the SQL name of a table and never builds
one.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from ingest.config.settings import Settings
from ingest.errors import PlatformError, TableError
from ingest.events import SILVER
from ingest.sql.quoting import quoted, sql_text
from ingest.sql.tables import definition, upkeep
from pipelines.platform.checkpoints import read_whole
from pipelines.platform.commit_log import (
    Commit,
    CommitFile,
    any_commit,
    clear_checksums,
    clear_commits,
    clear_failed_creation,
    commits,
    defined_since,
    end_of,
)
from pipelines.platform.leases import Patience, check, lease
from pipelines.platform.session import having

if TYPE_CHECKING:
    # Spark's workers import this module and read no configuration.
    from ingest.config.load import Config

T = TypeVar("T")
_SHUFFLE = "spark.sql.shuffle.partitions"
_FEW = 50_000
_LONGEST_NAME = 255
_DROPPED = "_dropped_"
"""Put before the name of what is left of a dropped table's log."""
LAYOUT, LAYOUT_PROPERTY = 1, "ingest.layout"
"""The layout of the tables, see `pipelines.platform.table_layout`: its number, and the property
that holds it."""
LAYOUT_NOTE = "layout.json"
"""The note of the layout, beside the checkpoints."""
PRODUCT = "delta-cdc-ingest"
CHECKPOINTS = ("delta.checkpointInterval", "50")
"""For a local table: its state is written completely every 50 commits. With Delta Lake's default of
10 every tenth small batch costs two thirds more than the others; the commits since are read in one
go."""
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

_READ = ("files/*.json", "commits/[0-9]*", "drained/*.json")
"""If a source's checkpoint has one of these, something was read into bronze: files, a stream, or a
queue that forgets."""


class Warehouse:
    """The tables of one configuration, in one Spark session: what every verb works on.

    `root`: the project's folder, from which files are known.
    """

    layout = LAYOUT
    """The one that this version works with."""

    def __init__(self, config: Config, session: SparkSession) -> None:
        self.config = config
        self.settings = config.settings
        self.root = str(config.root)
        self.session = session
        self.patience = Patience()
        self._cache: dict[tuple[str, str], tuple[int, object]] = {}
        self.same_moment: set[str] = set()
        """Notes of checkpoints that go with their tables: see `pipelines.platform.checkpoints`."""
        self._newest: dict[tuple[str, str], CommitFile] = {}
        self._fields: dict[tuple[str, str], tuple[CommitFile, list[StructField]]] = {}

    def check_not_upgraded(self) -> None:
        """Raise PlatformError if a newer version has upgraded the tables since they were opened; it
        notes their layout last."""
        noted = noted_layout(self)
        if noted is not None and noted["layout"] > self.layout:
            raise newer_layout(noted["layout"], noted["version"], most=self.layout)

    @property
    def local(self) -> bool:
        """Whether tables are folders."""
        return self.settings.catalog is None

    @property
    def in_one_process(self) -> bool:
        """Whether Spark's tasks run in the process of its driver, and that driver is this session's
        own, which with Spark Connect it is not. A platform is not asked."""
        if not self.local or not hasattr(self.session, "_jsparkSession"):
            return False
        master = self.session.conf.get("spark.master", "") or ""
        return master == "local" or master.startswith("local[")

    @contextmanager
    def shuffling(self, rows: int = 0) -> Iterator[None]:
        """Work on this many rows: if they are few, a second part of every shuffle costs a third
        more CPU and saves no time. A platform keeps its own settings."""
        few = self.local and rows <= _FEW
        with having(self.session, {_SHUFFLE: "1"} if few else {}):
            yield

    def schema(self, layer: str) -> str:
        """The schema that holds `layer` (bronze, silver, gold or history)."""
        return str(getattr(self.settings.schemas, layer))

    def folder(self, layer: str, table: str) -> Path:
        """The folder of a local table.

        Raises TableError if no folder can have its name.
        """
        if len(table) > _LONGEST_NAME:
            raise TableError(
                f"expected the name of a table of at most {_LONGEST_NAME} characters, got "
                f"{len(table)}: {table[:60]}…; set `target` for it"
            )
        return Path(self.settings.warehouse) / self.schema(layer) / table

    def name(self, layer: str, table: str) -> str:
        """The SQL name of a table: a path locally, a catalog name elsewhere."""
        if self.settings.catalog is None:
            return f"delta.{quoted(str(self.folder(layer, table)))}"
        return quoted(self.settings.catalog, self.schema(layer), table)

    def exists(self, layer: str, table: str) -> bool:
        """Whether the table has been created."""
        if self.local:
            return any_commit(self._log(layer, table))
        return self.session.catalog.tableExists(self.name(layer, table))

    def tables(self, layer: str) -> list[str]:
        """The tables and views of a layer that have been created."""
        if self.local:
            logs = self.folder(layer, "_").parent.glob("*/_delta_log")
            return sorted(log.parent.name for log in logs)
        assert self.settings.catalog is not None
        schema = quoted(self.settings.catalog, self.schema(layer))
        if not self.session.catalog.databaseExists(schema):
            return []
        # catalog.listTables would read the metadata of each.
        found = self.session.sql(definition.tables(schema)).collect()
        return sorted(row["tableName"] for row in found if not row["isTemporary"])

    def read(self, layer: str, table: str) -> DataFrame:
        """The table as it is now."""
        return self.session.table(self.name(layer, table))

    def fields(self, layer: str, table: str) -> list[StructField]:
        """The columns of the table as it is now. Those of a local table are asked for again only if
        a commit has defined it anew, since Spark has to load the state of the whole table for
        them."""
        last = self._last(layer, table) if self.local else None
        known = self._fields.get((layer, table))
        if last is not None and known is not None:
            before, fields = known
            if not defined_since(self._log(layer, table), before, last):
                self._fields[layer, table] = (last, fields)
                return fields
        fields = self.read(layer, table).schema.fields
        if last is not None:
            self._fields[layer, table] = (last, fields)
        return fields

    def table_property(self, layer: str, table: str, name: str) -> str | None:
        """A property of a table that exists; None if it has none of that name."""
        shown = self.session.sql(definition.properties(self.name(layer, table))).collect()
        return next((str(row["value"]) for row in shown if row["key"] == name), None)

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
        pairs = [*self.prepare(layer, table).items(), *(properties or {}).items()]
        self.execute(
            definition.create_table(
                self.name(layer, table), columns, partitioned_by=partitioned_by, properties=pairs
            )
        )

    def prepare(self, layer: str, table: str) -> dict[str, str]:
        """Make room for a table that does not exist; gives the properties that it is to have
        here."""
        if self.local:
            folder = self.folder(layer, table)
            if any(folder.glob(f"{_DROPPED}*")):
                # Left by a drop that was cut short: rows that nobody must find.
                shutil.rmtree(folder, ignore_errors=True)
            clear_failed_creation(self._log(layer, table))
            return dict([CHECKPOINTS])
        assert self.settings.catalog is not None
        self.session.sql(
            definition.create_schema(quoted(self.settings.catalog, self.schema(layer)))
        )
        return {}

    def execute(self, statement: str) -> DataFrame:
        """Run a statement that changes a table, and give what it counted. If another process has
        taken over the lease on the tables, nothing is changed (LeaseLost). All such statements of
        the product go through here."""
        check(self)
        return self.session.sql(statement)

    def drop(self, layer: str, table: str) -> None:
        """Remove a table that nobody else uses, if it exists. Its log is removed first, in one
        step: a part of it would be a table that nobody can read or remove."""
        if self.local:
            log = self._log(layer, table)
            with suppress(FileNotFoundError):
                log.rename(log.with_name(f"{_DROPPED}{uuid.uuid4().hex}"))
            shutil.rmtree(self.folder(layer, table), ignore_errors=True)
        else:
            self.execute(definition.drop("TABLE", self.name(layer, table)))
        self._cache.pop((layer, table), None)

    def append(
        self,
        frame: DataFrame,
        layer: str,
        table: str,
        *,
        once: tuple[str, int] | None = None,
        note: int | None = None,
    ) -> None:
        """Append rows. `once` = (writer, number): its mark in the table's log, see `append_note`;
        `note` is stored with it, see `last_note`.

        In a catalog Delta also skips a number that is not above the writer's last one. Locally that
        would double the cost of a small append, since the writer is looked up in the whole state of
        the table.
        """
        check(self)
        writer = frame.write.format("delta").mode("append")
        if once is not None:
            writer = writer.option("userMetadata", f"{_mark(once)} {note}")
            if not self.local:
                writer = writer.option("txnAppId", once[0]).option("txnVersion", once[1])
        if self.local:
            writer.save(str(self.folder(layer, table)))
        else:
            writer.saveAsTable(self.name(layer, table))

    def replace(self, frame: DataFrame, layer: str, table: str, *, where: str, note: int) -> None:
        """Replace the rows for which `where` is true by others, in one commit; `note` is stored in
        the table's log, see `last_note`."""
        check(self)
        writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", where)
        writer = writer.option("userMetadata", f"{_mark((f'{layer}/replace', note))} {note}")
        if self.local:
            writer.save(str(self.folder(layer, table)))
        else:
            writer.saveAsTable(self.name(layer, table))

    def append_note(self, layer: str, table: str, once: tuple[str, int]) -> int | None:
        """The note of the append with this mark in the table's log, None if there is none; by it a
        run finds what a killed one left."""
        found = self._marked(layer, table, once)
        return int(found.rpartition(" ")[2]) if found is not None else None

    def has_append(self, layer: str, table: str, once: tuple[str, int]) -> bool:
        """Whether the table's log has the append with this mark, even if it appended no row."""
        return self._marked(layer, table, once) is not None

    def _marked(self, layer: str, table: str, once: tuple[str, int]) -> str | None:
        history = self.session.sql(upkeep.history(self.name(layer, table)))
        found = history.where(F.col("userMetadata").startswith(f"{_mark(once)} ")).first()
        return str(found["userMetadata"]) if found is not None else None

    def last_note(self, layer: str, table: str) -> int | None:
        """The note of the table's newest commit; None if that commit has none."""
        _, _, note = (self.last_commit(layer, table).note or "").partition(" ")
        return int(note) if note.isdigit() else None

    def last_commit(self, layer: str, table: str) -> Commit:
        """The newest commit."""
        return self.commits(layer, table, 1)[0]

    def next_version(self, layer: str, table: str) -> int:
        """The number of the table's next commit. As the number of an append (`once`) it is higher
        than all before it, even if batches are counted on from a lower number, as after a
        RESTORE."""
        return self.last_commit(layer, table).version + 1

    def stamp(self, layer: str, table: str) -> str:
        """What tells the newest commit from any other; '' if there is no table."""
        if not self.exists(layer, table):
            return ""
        commit = self.last_commit(layer, table)
        return f"{commit.version} of {commit.at}"

    def commits(self, layer: str, table: str, most: int) -> list[Commit]:
        """The newest commits, the last one first. The log of a local table is read directly, since
        a query of it costs a quarter of a CPU second."""
        if not self.local:
            log = self.session.sql(upkeep.history(self.name(layer, table), most=most))
            names = ("version", "timestamp", "operation", "userMetadata", "operationMetrics")
            named = log.select(*names, "operationParameters")
            newest = sorted(named.collect(), key=lambda row: int(row["version"]), reverse=True)
            return [
                Commit(
                    row["version"],
                    str(row["timestamp"]),
                    row["operation"],
                    row["userMetadata"],
                    row["operationMetrics"] or {},
                    row["operationParameters"] or {},
                )
                for row in newest
            ]
        return commits(self._log(layer, table), self._last(layer, table), most)

    def clear_checksums(self, layer: str, table: str) -> None:
        """Keep the log of a local table short; that of a catalog's table is the platform's
        business."""
        last = self._last(layer, table) if self.local else None
        if last is not None:
            clear_checksums(self._log(layer, table), last)

    def clear_commits(self, layer: str, table: str, *, below: int, older: int) -> None:
        """Remove old commits from the log of a local table, see `clear_commits`. Spark Connect
        cannot be asked for it."""
        if self.local and hasattr(self.session, "_jsparkSession"):
            clear_commits(self.session, self.folder(layer, table), below=below, older=older)

    def _log(self, layer: str, table: str) -> Path:
        return self.folder(layer, table) / "_delta_log"

    def _last(self, layer: str, table: str) -> CommitFile | None:
        """Where a local table's log ends; None if it has none."""
        known = self._newest.pop((layer, table), None)
        last = end_of(self._log(layer, table), known)
        if last is not None:
            self._newest[layer, table] = last
        return last

    def cached(self, layer: str, table: str, read: Callable[[], T]) -> T:
        """What `read` gives of the table; called again only when the table has changed."""
        version = self.last_commit(layer, table).version
        known = self._cache.get((layer, table))
        if known is None or known[0] != version:
            known = (version, read())
            self._cache[layer, table] = known
        return cast(T, known[1])

    def cache(self, layer: str, table: str, what: object) -> None:
        """Note that `what` is what a read of the table would give after an append by its only
        writer."""
        self._cache[layer, table] = (self.last_commit(layer, table).version, what)

    def checkpoint(self, *parts: str) -> str:
        """The folder of a stream's checkpoint."""
        assert self.settings.checkpoints is not None, "config.load fills it in"
        return str(Path(self.settings.checkpoints, *parts))


class LayoutNote(TypedDict):
    """The layout of the tables, and the first version of the product that had it, '' if the tables
    did not say."""

    layout: int
    version: str


def noted_layout(warehouse: Warehouse) -> LayoutNote | None:
    """The note of the tables' layout; None if there is none."""
    file = Path(warehouse.checkpoint(LAYOUT_NOTE))
    then = "bronze and silver say the layout themselves"
    return read_whole(file, LayoutNote, source=None, then=then)


def newer_layout(number: int, written: str, *, most: int) -> PlatformError:
    """The sentence on tables of a layout that this version does not know."""
    by, install = f", which {PRODUCT} {written} wrote", f"{written} or a newer one"
    return PlatformError(
        f"expected tables of layout {most} at most, which {PRODUCT} {version(PRODUCT)} works with, "
        f"got layout {number}{by if written else ''}; install "
        f"{install if written else 'a newer one'}"
    )


def _mark(once: tuple[str, int]) -> str:
    return f"{once[0]}/{once[1]}"


def create_bronze(warehouse: Warehouse) -> None:
    """`bronze.messages`, with one partition for each source, so that sources do not read each
    other's files.

    Raises TableError if the table is gone although checkpoints say that something was read into it:
    going on would leave out everything that it held.
    """
    if warehouse.exists("bronze", "messages"):
        return
    # Sources are read side by side, each under its own lease; any of them may have to make the
    # table.
    with lease(warehouse, "bronze"):
        if warehouse.exists("bronze", "messages"):
            return
        read = _begun(warehouse, "bronze", _READ)
        way = "--bronze --yes` reads what there still is"
        _check_never_there(
            "bronze.messages", read, way=way, checkpoint=warehouse.checkpoint("bronze")
        )
        warehouse.create(
            "bronze",
            "messages",
            BRONZE,
            partitioned_by=["source"],
            properties={"delta.dataSkippingNumIndexedCols": "5", **_layout()},
        )


def create_silver(warehouse: Warehouse) -> None:
    """`silver.cdc`, with file statistics on the columns by which the rows of a table or a key are
    found.

    The caller holds the lease on silver. Raises TableError if the table is gone although
    checkpoints say that something was decoded into it.
    """
    if warehouse.exists("silver", "cdc"):
        return
    decoded = _begun(warehouse, "silver", ("stream/commits/[0-9]*",))
    way = "--yes` decodes what bronze holds again"
    _check_never_there("silver.cdc", decoded, way=way, checkpoint=warehouse.checkpoint("silver"))
    statistics = "kind,db,schema,table,op,epoch,s1,event_time,batch,key_hash,topic,partition,offset"
    warehouse.create(
        "silver",
        "cdc",
        [(c.name, f"{c.type} COMMENT {sql_text(c.text)}") for c in SILVER],
        partitioned_by=["source"],
        properties={"delta.dataSkippingStatsColumns": statistics, **_layout()},
    )


def _layout() -> dict[str, str]:
    return {LAYOUT_PROPERTY: f"{LAYOUT} {version(PRODUCT)}"}


def _begun(warehouse: Warehouse, layer: str, marks: Sequence[str]) -> list[str]:
    """The sources whose checkpoints show that the layer has had something from them."""
    folders = Path(warehouse.checkpoint(layer)).glob("*")
    return sorted(
        folder.name for folder in folders if any(True for mark in marks for _ in folder.glob(mark))
    )


def _check_never_there(table: str, begun: Sequence[str], *, way: str, checkpoint: str) -> None:
    if begun:
        raise TableError(
            f"the table {table} is gone, which held messages of {', '.join(begun)}; `ingest reset "
            f"--source NAME {way}, for each of these sources (of one that is not declared any "
            f"more, remove the folder of its name in {checkpoint}); or bring the table back"
        )


def writable(settings: Settings) -> None:
    """Raise PlatformError unless the local warehouse can be written."""
    if settings.catalog is not None:
        return
    folder = Path(settings.warehouse)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Under a name of its own, since another driver may look at the same moment.
        probe = folder / f"._writable.{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PlatformError(
            f"expected to write to the warehouse {folder}, got: {error.strerror}; choose another "
            "with --warehouse or in conf/ingest.yml"
        ) from None
