"""What one call of the command works with: its configuration, its output, its warehouse."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ingest.errors import ConfigError, Mistake, PlatformError
from pipelines.terminal.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from ingest.config.load import Config
    from pipelines.platform.warehouse import Warehouse

MOST_ROWS = 1000
"""How many rows of a query are shown to people; programs get all."""
FIRST_ROWS = f"the first {MOST_ROWS:,} rows; --json gives all"


@dataclass
class Invocation:
    """The options that every verb takes. Heavy modules are imported when they are first needed."""

    conf: str = "conf"
    warehouse_folder: str | None = None
    json: bool = False
    no_wait: bool = False
    max_wait: float | None = None
    verbose: bool = False
    any_layout: bool = False
    """Whether the tables may be of another layout than this version works with."""

    @cached_property
    def console(self) -> Console:
        """Where results and messages go."""
        return Console(json=self.json)

    @cached_property
    def config(self) -> Config:
        """The configuration; raises ConfigError with every mistake in it."""
        from ingest.config.load import load
        from pipelines.platform.secrets import secret_scopes, without_any

        overrides: dict[str, Any] = {}
        if self.warehouse_folder is not None:
            overrides["warehouse"] = self.warehouse_folder
        config = load(self.conf, overrides=overrides, scopes=secret_scopes())
        self.console.hide = partial(without_any, config=config)
        return config

    @cached_property
    def warehouse(self) -> Warehouse:
        """The tables, in a Spark session; raises PlatformError if there can be none."""
        settings = self.config.settings
        from pipelines.platform.leases import Patience
        from pipelines.platform.object_stores import check_log_store
        from pipelines.platform.session import spark
        from pipelines.platform.spark_submit import adapted
        from pipelines.platform.table_layout import check_layout
        from pipelines.platform.warehouse import Warehouse, writable

        writable(settings)
        with self.console.waiting("starting Spark"):
            declared = [source.kafka for source in self.config.sources.values()]
            session = spark(
                warehouse=Path(settings.warehouse),
                with_kafka=any(kafka is not None and kafka.by_token for kafka in declared),
            )
        _quiet()
        for text in adapted(session, settings.catalog):
            self.console.say(text)
        check_log_store(session, settings)
        warehouse = Warehouse(self.config, session)
        most = 0.0 if self.no_wait else self.max_wait
        warehouse.patience = Patience(most=most, say=self.console.say)
        if not self.any_layout:
            check_layout(warehouse)
        return warehouse

    def sources(self, named: Iterable[str]) -> list[str]:
        """The sources that were named, or all if none was; raises ConfigError for unknown ones."""
        from ingest.config.mistakes import unknown_word

        names = list(self.config.sources)
        chosen = list(dict.fromkeys(named))
        wrong = [
            Mistake("command line", None, unknown_word("--source", name, names))
            for name in chosen
            if name not in names
        ]
        if wrong:
            raise ConfigError(wrong)
        return chosen or names


def versions() -> dict[str, str | None]:
    """The product's version, and the versions of what it runs on; None: it is not installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {"ingest": version("delta-cdc-ingest")}
    found["Python"] = platform.python_version()
    for package in ("pyspark", "delta-spark"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return {**found, "Java": _java()}


def _java() -> str | None:
    """The version of the Java on which a local Spark would run, or where it lies."""
    from pipelines.platform.java import find_java

    try:
        home = find_java()
    except PlatformError:
        return None
    release_file = home / "release"
    release = release_file.read_text(encoding="utf-8") if release_file.exists() else ""
    _, _, version = release.partition('JAVA_VERSION="')
    return version.partition('"')[0] or str(home)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    call = context.ensure_object(Invocation)
    if value is not None and value is not False:
        setattr(call, str(parameter.name), value)


def everywhere(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The three options that may stand before the verb or after it."""
    kept: dict[str, Any] = {"expose_value": False, "callback": _keep}
    for option in (
        click.option("--json", is_flag=True, help="One JSON object a line, for programs.", **kept),
        click.option(
            "--warehouse",
            "warehouse_folder",
            metavar="DIR",
            help="Folder of the tables, instead of the setting.",
            **kept,
        ),
        click.option("--conf", metavar="DIR", help="Folder of the YAML. [default: conf]", **kept),
    ):
        verb = option(verb)
    return verb


_WAITS = "Wait so long for another run, then end with 75. [default: until it ends]"


def patient(verb: Callable[..., Any], *, waits: str = _WAITS) -> Callable[..., Any]:
    """How long a verb that changes tables waits for another that does; `waits` says so."""
    kept: dict[str, Any] = {"expose_value": False, "callback": _keep}
    seconds = click.FloatRange(min=0)
    for option in (
        click.option(
            "--max-wait",
            type=seconds,
            metavar="SECONDS",
            help=waits,
            **kept,
        ),
        click.option("--no-wait", is_flag=True, help="Do not wait for another run.", **kept),
    ):
        verb = option(verb)
    return verb


def detailed(verb: Callable[..., Any]) -> Callable[..., Any]:
    """What a verb that shows a screen leaves out otherwise."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Also positions, whole ids and paths.",
    )(verb)


@contextmanager
def bad_sql(call: Invocation) -> Iterator[None]:
    """Report as a mistake in the command: a statement that Spark cannot parse or resolve, or values
    with which it cannot compute."""
    from pyspark.errors import AnalysisException, PySparkException

    from pipelines.operations.views import unknown_table

    try:
        yield
    except AnalysisException as error:
        text = unknown_table(call.warehouse, error)
        if text is None:
            text = str(error).strip().split("\n")[0]
        raise ConfigError([Mistake("query", None, text)]) from None
    except PySparkException as error:
        # Class 22 of the SQL standard: a division by zero, a cast that does not fit.
        if not (error.getSqlState() or "").startswith("22"):
            raise
        text = str(error).strip().split("\n")[0]
        raise ConfigError([Mistake("query", None, text)]) from None


def print_frame(call: Invocation, frame: DataFrame, *, shown: Sequence[str] | None = None) -> None:
    """Print a frame: all of it for programs, the first MOST_ROWS for people."""
    from pipelines.platform.rows import rows

    columns = frame.columns
    if call.json:
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            text = f"several columns are called {', '.join(twice)}; name them apart with AS"
            raise ConfigError([Mistake("query", None, text)])
        call.console.rows(columns, rows(frame))
    elif columns:
        found = list(rows(frame.limit(MOST_ROWS + 1)))
        call.console.rows(columns, found[:MOST_ROWS], shown=shown, whole=True)
        if len(found) > MOST_ROWS:
            call.console.say(FIRST_ROWS)


def _quiet() -> None:
    """Keep pyspark from logging errors, as JSON with stack traces, that are reported anyway."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
