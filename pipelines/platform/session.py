"""The Spark session: the platform's own if there is one, else an embedded local one.

On Databricks, under spark-submit and with Spark Connect the session exists already, and only one
thing is set here: that statements are taken as they are written (`spark_submit.py` sets more for
the command under spark-submit). Elsewhere `spark` starts a JVM with Delta Lake and the settings
below, all of them meant for one machine and for tables of thousands to millions of rows. None of
them changes a result.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ingest.errors import PlatformError, TableError
from pipelines.platform.class_archive import java_options
from pipelines.platform.failures import gist
from pipelines.platform.jars import fetch
from pipelines.platform.java import allowed_memory, find_java

try:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.sql import DataFrame, SparkSession, is_remote
except ModuleNotFoundError as missing:
    raise PlatformError(
        f"there is no Spark here ({missing}): run on a Spark platform, or install the extra"
        " with `pip install 'delta-cdc-ingest[spark]'`."
    ) from missing

P = ParamSpec("P")
T = TypeVar("T")
HERE = Path(__file__).parent
NO_DICTIONARIES = {"parquet.enable.dictionary": "false"}
"""For Parquet files that are written often: looking for repeated values costs more than a third of
writing them, and saves a seventh of their bytes."""
NO_CONSTRAINTS = {"spark.sql.constraintPropagation.enabled": "false"}
"""Otherwise Spark writes down what it knows of a query's columns in every way that their other
names allow: for versions with fifty columns millions of ways, until the memory is full."""
SOURCE_SET_DOWN = {"spark.databricks.delta.merge.materializeSource": "all"}
"""For a MERGE whose source is expensive to compute, since Delta reads it three times."""
_NOBODY_ANSWERS = "Exception while sending command."
"""What py4j logs, with a traceback, before it raises the error."""
SUBSTITUTION = "spark.sql.variable.substitute"
"""Whether Spark replaces `${…}` in statements before it reads them: by settings, by properties of
the JVM, or by environment variables of the driver."""
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_REPLACED = re.compile(r"\$\{(?:\w+?:)?\S+?\}")
"""What Spark then takes for a variable."""
LOG: Path | None = None
"""The file to which the JVM of this process, if it has one, prints."""
SETTINGS = {
    # Delta Lake itself.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Half the bytes of snappy's, and no more time to write or read them.
    "spark.sql.parquet.compression.codec": "zstd",
    # One zone everywhere, so that what people see printed is what is stored.
    "spark.sql.session.timeZone": "UTC",
    # Names of columns are text of the source: no text of a message is ever replaced by another.
    SUBSTITUTION: "false",
    # A MERGE generates some 60 classes; the default of 100 is flushed by every second one.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # HotSpot never compiles a larger method, so code in one piece would be interpreted for good:
    # Spark then generates it in pieces.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    **NO_CONSTRAINTS,
    # Re-planning costs more than it saves on batches of this size.
    "spark.sql.adaptive.enabled": "false",
    # A list of values stands beside the generated code, not in it: each batch would be compiled
    # anew for the sake of its number.
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    # Two cores or a few: 200 shuffle partitions and 50 of a snapshot are mostly empty tasks, and
    # each task writes the source of its code anew.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM lists folders in as many tasks, by default 10,000: a minute for each of its steps.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # The source of every MERGE here is a deterministic read: no need to write it out first.
    "spark.databricks.delta.merge.materializeSource": "none",
    # Delta keeps the state of every table it has looked at: enough tables at hand for a batch, and
    # the heap stays free with hundreds of them.
    "spark.databricks.delta.delta.log.cacheSize": "16",
    # Batches that stay in the processor's cache: a quarter less CPU than 10,000 rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # 4.2.0 hangs in a plain udf() straight over a Parquet scan with it.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Spark otherwise raises the level of its log to WARN by itself.
    "spark.log.level": "ERROR",
    # Nobody looks: saves a web server, its port and its bookkeeping, which keeps the plans of a
    # thousand queries as text.
    "spark.ui.enabled": "false",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.ui.showConsoleProgress": "false",
    # The machine's own name need not resolve, and nothing is open to the network.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


def ordered_by(*columns: str) -> dict[str, str]:
    """Settings, in addition to `NO_DICTIONARIES`, for Parquet files that are ordered by columns and
    read for one value of these: a twentieth more bytes.

    A reader skips the parts of a file whose dictionary lacks the value it looks for (their least
    and greatest value seldom tell), and skips pages within a part (a page of 20,000 rows, as is
    usual, has every value).
    """
    dictionaries = {f"parquet.enable.dictionary#{column}": "true" for column in columns}
    return {**dictionaries, "parquet.page.row.count.limit": "2000"}


def spark(*, warehouse: Path, memory: str | None = None, with_kafka: bool = False) -> SparkSession:
    """Gives the session to work with; a second call gives the same one.

    Args:
        warehouse: folder of the embedded platform; Spark's own log goes to `_spark.log` in it.
        memory: heap of the embedded JVM, in Java's words (`2g`); if not given, a quarter of the
            memory that this process may use, from 2g to 16g: Delta keeps some megabytes for every
            table that is written.
        with_kafka: the embedded JVM starts with Kafka's jars on its class path, where it is else
            given them once it reads Kafka (`connect_kafka`): a login by OAUTHBEARER needs one class
            of that name in the JVM, and jars that come later are loaded twice, for the driver and
            for its tasks.

    Raises:
        PlatformError: no Java or Delta jars to start with, or a warehouse that is not writable.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        active = _session(warehouse, memory, with_kafka=with_kafka)
    return literal(active)


def literal(session: SparkSession) -> SparkSession:
    """The session, made to take statements as they are written (semantics.md, 71).

    Literals are safe in any session (`ingest.sql.quoting.sql_text`), but names of columns only in
    one that replaces nothing. If a platform does not let that be set, a statement with a name in
    which it would replace something raises TableError, so that its table is parked.
    """
    try:
        session.conf.set(SUBSTITUTION, "false")
    except PySparkException:
        if session.conf.get(SUBSTITUTION, "true") != "false":
            _refuse_variables(session)
    return session


@contextmanager
def having(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Work with these settings, and restore the former ones afterwards. A setting that a platform
    does not let be set stays as it is; the work must be right without it."""
    conf = session.conf
    earlier: dict[str, str | None] = {}
    for name, value in settings.items():
        with suppress(PySparkException):
            before = conf.get(name, None)
            conf.set(name, value)
            earlier[name] = before
    try:
        yield
    finally:
        for name, value_before in earlier.items():
            if value_before is None:
                conf.unset(name)
            else:
                conf.set(name, value_before)


def planned(frame: DataFrame) -> DataFrame:
    """The frame, for which Delta has looked for the files to read, without generating code for it.

    A query for the rows of a batch is otherwise new to Spark with each batch, whose number stands
    in the condition on files: it would compile that anew, and keep what it compiled, 100 KB a
    class, until there are `spark.sql.codegen.cache.maxEntries` of them. No other thread may work
    with the session meanwhile, since its settings are changed.
    """
    if not is_remote():
        with having(frame.sparkSession, _INTERPRETED):
            frame._jdf.queryExecution().optimizedPlan()
    return frame


@contextmanager
def called_back(function: Callable[P, T]) -> Iterator[Callable[P, T]]:
    """The function, for Spark's JVM to call.

    For each thread of the JVM that has called, and each run of a stream is a new one, py4j keeps a
    socket and a thread of this process that waits for its next call, until the JVM collects what is
    left of it, and the JVM keeps its end for good. These are let go at the end, the JVM's by the
    call after the next. Spark Connect calls in another process.
    """
    if is_remote():
        yield function
        return
    connections: set[Any] = set()

    def noted(*args: P.args, **named: P.kwargs) -> T:
        connections.add(_connection())
        return function(*args, **named)

    try:
        yield noted
    finally:
        for connection in connections:
            # Not closed: that would wait for the thread that reads it, which closes it itself.
            with suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
        gateway: Any = SparkContext._gateway
        with suppress(Py4JError, AttributeError):
            # Drops those that nobody has used since it was last called.
            gateway.java_gateway_server.getCallbackClient().periodicCleanup()


def _connection() -> Any:
    """What py4j has this thread talk to the JVM by; None where it keeps none for a thread."""
    client = getattr(SparkContext._gateway, "_gateway_client", None)
    ask = getattr(client, "get_thread_connection", None)
    return ask() if ask is not None else None


def _refuse_variables(session: SparkSession) -> None:
    if "sql" in vars(session):
        return
    run = session.sql

    def sql(query: str, *arguments: Any, **named: Any) -> DataFrame:
        found = _REPLACED.search(query)
        if found is not None:
            raise TableError(
                f"expected names without ${{…}}, got {found[0]}: this platform replaces it in "
                f"statements and does not let {SUBSTITUTION} be switched off; exclude the column"
            )
        return run(query, *arguments, **named)

    session.sql = sql  # type: ignore[method-assign,assignment]


def _session(warehouse: Path, memory: str | None, *, with_kafka: bool) -> SparkSession:
    """The platform's own session, else a new embedded one."""
    remote = os.environ.get("SPARK_REMOTE", "")
    elsewhere = {"DATABRICKS_RUNTIME_VERSION", "PYSPARK_GATEWAY_PORT"} & os.environ.keys()
    if elsewhere or (remote and not remote.startswith("local")):
        try:
            return SparkSession.builder.getOrCreate()
        except Exception as error:
            # Errors of the JVM's own too, such as a master that is not there or a cluster without
            # room.
            raise PlatformError(
                f"the Spark session could not be started: {gist(error)}; the driver's log says why."
            ) from error
    memory = memory or _quarter()
    os.environ["JAVA_HOME"] = str(find_java())
    # Workers run in this Python, whichever `python3` comes first on the path, and import nothing
    # from the current folder.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONSAFEPATH"] = "1"
    jars = tuple(fetch(HERE / "delta.jars"))
    if with_kafka:
        jars += tuple(fetch(HERE / "kafka.jars"))
    settings = {**_folder_settings(warehouse), **SETTINGS, **_launch_settings(memory, jars)}
    if remote:
        # Spark Connect with a server of its own: what a builder is given is set on the session,
        # where most of it may not be set, so the command line of the server has it instead.
        words = [word for item in settings.items() for word in ("--conf", "=".join(item))]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, "pyspark-shell"])
        return SparkSession.builder.remote(remote).getOrCreate()
    conf = SparkConf().setAll(list(settings.items())).setMaster("local[*]").setAppName("ingest")
    try:
        context = SparkContext(
            conf=conf, gateway=_gateway(memory, jars, log=warehouse / "_spark.log")
        )
    except PySparkException as error:
        raise PlatformError(
            f"Spark did not start ({error.getCondition()}); {warehouse / '_spark.log'} says why."
        ) from error
    _mute_when_jvm_goes(context)
    return SparkSession.builder.getOrCreate()


def _mute_when_jvm_goes(context: SparkContext) -> None:
    """Keep pyspark and py4j from printing tracebacks of their own when the JVM is gone, which is
    said elsewhere, in a sentence."""
    server: Any = context._accumulatorServer
    said = server.handle_error

    def handle_error(*of: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            said(*of)

    server.handle_error = handle_error
    logging.getLogger().addFilter(_worth_logging)


def _worth_logging(record: logging.LogRecord) -> bool:
    return record.msg != _NOBODY_ANSWERS


def connect_kafka(session: SparkSession) -> None:
    """Makes `format("kafka")` known to the calling thread, which is the one to read with it.

    In a session with a JVM of its own, added jars are seen by the thread that added them, and by
    the streams that it starts. Does nothing where Kafka is known already.

    Raises:
        PlatformError: the jars cannot be had, or a remote Spark lacks them.
    """
    if _knows_kafka(session):
        return
    # As a resource of the package, which `--py-files` brings zipped.
    for jar in fetch(files("pipelines.platform") / "kafka.jars"):
        session.sql(f"ADD JAR '{jar.as_uri()}'")
    if not _knows_kafka(session):
        raise PlatformError(
            "this Spark has no Kafka source and does not take one: start it with the package"
            " org.apache.spark:spark-sql-kafka-0-10 of its version."
        )


def _knows_kafka(session: SparkSession) -> bool:
    try:
        # Without options the source itself refuses (IllegalArgumentException); where there is none,
        # the analysis does.
        _ = session.read.format("kafka").load().schema
    except AnalysisException:
        return False
    except PySparkException:
        return True
    return True


def _quarter() -> str:
    """A quarter of the memory that this process may use, from 2 to 16 GB."""
    return f"{min(max(2, int(allowed_memory() / 2**30 / 4)), 16)}g"


@cache
def _launch_settings(memory: str, jars: tuple[Path, ...]) -> dict[str, str]:
    """What a JVM must be told when it starts; later is too late."""
    archive = java_options(Path(os.environ["JAVA_HOME"]), Path(_find_spark_home()), jars)
    return {
        "spark.driver.memory": memory,
        # Every sort, aggregation and broadcast begins with a page, by default of up to 64 MB: for
        # small batches most of the heap, and of the time to clear it. Broadcasts read it from the
        # JVM's own properties.
        "spark.buffer.pageSize": "2m",
        # On the class path and not in spark.jars, which would copy them at every start.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": (
            # Fewer barriers than G1: 5 to 15 % less CPU on a small heap and few cores.
            "-XX:+UseParallelGC"
            # The second compiler takes a third of the CPU of a small run, which ends before that is
            # repaid: it waits until code is ten times hotter than it would by itself.
            " -XX:+IgnoreUnrecognizedVMOptions"
            " -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
            " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
            f' "-Dlog4j2.configurationFile={(HERE / "log4j2.properties").as_uri()}"'
            + "".join(f' "{option}"' for option in archive)
        ),
    }


def _folder_settings(warehouse: Path) -> dict[str, str]:
    try:
        warehouse.mkdir(parents=True, exist_ok=True)
        (warehouse / "_spark.log").open("ab").close()
    except OSError as error:
        raise PlatformError(
            f"cannot write to the warehouse {warehouse}: {error.strerror};"
            " set another `warehouse` in conf/ingest.yml."
        ) from error
    # Without it a folder spark-warehouse appears wherever the command is typed.
    return {"spark.sql.warehouse.dir": str(warehouse.absolute())}


@cache
def _gateway(memory: str, jars: tuple[Path, ...], *, log: Path) -> Any:
    """Starts the one JVM of the process, with everything it prints sent to the log.

    The JVM gets a session of its own: a signal to the process group, as a terminal, systemd and
    `timeout` send it, asks this process to end, which needs the JVM until it has ended. However
    this process ends, the standard input of the JVM is closed then, and that ends the JVM.
    """
    from pyspark.java_gateway import launch_gateway

    global LOG
    LOG = log
    conf = SparkConf(loadDefaults=False).setAll(list(_launch_settings(memory, jars).items()))
    with log.open("ab") as output:
        return launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stdout": output, "stderr": output, "start_new_session": True}
        )
