"""The command `ingest`: the verbs, their options, their exit codes.

0 done; 1 the work was done except for what standard error names; 2 a mistake in the command or the
configuration, nothing was touched; 75 another run holds what this one needs, and it was not to wait
any longer. Verbs import what they need when they run, so that those without Spark answer at once.

To add a verb: a command here, or in a file of its name that is added below; its examples in
`examples.py`; what it does in `pipelines/operations/`. `make docs` lists it.
"""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__" and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    # As a script, which spark-submit runs, its own folder comes first on the path: `inspect` would
    # be the module beside this one, not Python's.
    del sys.path[0]

import click

from ingest.errors import TRY_AGAIN, ConfigError, LeaseHeld, PlatformError
from pipelines.cli.completion import add_completion
from pipelines.cli.context import (
    FIRST_ROWS,
    MOST_ROWS,
    Invocation,
    bad_sql,
    detailed,
    everywhere,
    patient,
    print_frame,
    versions,
)
from pipelines.cli.ddl import ddl
from pipelines.cli.examples import add_examples
from pipelines.cli.init import init
from pipelines.cli.rejects import rejects
from pipelines.cli.reports import report
from pipelines.cli.review import review
from pipelines.cli.tables import TABLE_VERBS
from pipelines.cli.watching import watched, watching
from pipelines.terminal.console import counted, open_output
from pipelines.terminal.log import JsonLog


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; returns where all went well, else raises SystemExit with 1, 2 or 75.

    Platforms that call this function take every SystemExit for a failure, also one with 0.
    """
    open_output()
    call = Invocation()
    try:
        ingest.main(args=arguments, prog_name="ingest", obj=call)
    except SystemExit as end:
        if end.code:
            raise
    except ConfigError as error:
        _end(call, list(map(str, error.mistakes)), 2)
    except LeaseHeld as error:
        _end(call, [str(error)], TRY_AGAIN)
    except Exception as error:
        from pipelines.platform.failures import described

        _end(call, [described(error)], 2 if isinstance(error, PlatformError) else 1)


def _end(call: Invocation, lines: Sequence[str], code: int) -> None:
    for line in lines:
        call.console.say(line, level="error")
    raise SystemExit(code) from None


def _show_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_versions())
        context.exit()


def _versions() -> str:
    """In a line: the product's version, and in brackets those of what it runs on."""
    own, *below = (f"no {name}" if v is None else f"{name} {v}" for name, v in versions().items())
    return f"{own} ({', '.join(below)})"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and those of Python, Spark, Delta Lake and Java.",
)
@everywhere
def ingest() -> None:
    """Turn change messages of databases into one history and into current tables.

    Ends with 0 when all is done; with 1 when it is but for what standard error names; with 2 where
    the command, the configuration or the machine does not allow it, and nothing was touched; with
    75 where another run is at work and it was not to wait any longer.
    """


for table_verb in TABLE_VERBS:
    ingest.add_command(table_verb)


@ingest.command()
@click.option("--connect", is_flag=True, help="Also try each source's brokers or files.")
@everywhere
@click.pass_obj
def validate(call: Invocation, connect: bool) -> None:
    """Check the configuration; report every mistake at once.

    With --connect, a source that cannot be reached ends it with 1. Servers, logins, topics and
    queues are asked, and nothing is read.
    """
    try:
        config = call.config
    except ConfigError as error:
        if call.json:
            for mistake in error.mistakes:
                call.console.record({"kind": "mistake", **mistake._asdict()})
        raise
    columns = ("kind", "source", "format", "transport", "order", "entries")
    rows = [
        (
            "source",
            name,
            source.format,
            source.transport,
            source.order,
            len(config.tables[name].tables),
        )
        for name, source in config.sources.items()
    ]
    call.console.rows(columns, rows, shown=columns[1:])
    from ingest.config.checks import renamed_targets

    for tables in config.tables.values():
        for text in renamed_targets(tables):
            call.console.say(text)
    if connect:
        _connect(call)
    else:
        call.console.text(f"{call.conf}: no mistakes")


def _connect(call: Invocation) -> None:
    """Say of each source whether it can be reached, and that nothing is wrong where all can."""
    from pipelines.bronze.connections import CONNECTION, tried

    found = [tried(source, call.config.root) for source in call.config.sources.values()]
    if call.json:
        call.console.rows(CONNECTION, [("connection", *connection) for connection in found])
    failed = sum(not connection.reachable for connection in found)
    if not failed:
        call.console.text(f"{call.conf}: no mistakes")
    for source, reachable, text in found:
        (call.console.text if reachable else call.console.say)(f"source {source}: {text}")
    if failed:
        text = f"{failed} of {counted(len(found), 'sources')} cannot be read as declared"
        call.console.say(f"{call.conf}: {text}")
        raise SystemExit(1)


_SOURCES = "Only this source. May be given several times."
_TABLES = (
    "In gold, only this target; bronze and silver go by --source alone. May be given several times."
)


def _stage(name: str, stages: tuple[str, ...], text: str) -> None:
    """Add one of the verbs that bring messages forward."""

    @ingest.command(name, help=text)
    @click.option("--source", "sources", multiple=True, metavar="S", help=_SOURCES)
    @click.option("--table", "tables", multiple=True, metavar="T", help=_TABLES)
    @click.option("--continuous", is_flag=True, help="Go on until SIGTERM or SIGINT.")
    @watched
    @patient
    @everywhere
    @click.pass_obj
    def verb(
        call: Invocation,
        /,
        sources: tuple[str, ...],
        tables: tuple[str, ...],
        continuous: bool,
        metrics: str | None,
        listen: str | None,
        log_format: str,
    ) -> None:
        if listen is not None and not continuous:
            raise click.UsageError("--listen needs --continuous")
        if log_format == "json":
            call.console.log = JsonLog()
        named = call.sources(sources)
        from pipelines.gold.known_targets import check_reachable, check_there

        targets = [check_reachable(table, call.config) for table in tables] or None
        from pipelines.platform.signals import Stop, heeding_signals

        stop = Stop()
        with (
            watching(call.console, metrics=metrics, listen=listen) as watch,
            heeding_signals(stop, call.console.say) as take,
        ):
            warehouse = call.warehouse
            take()
            if targets is not None:
                check_there(targets, warehouse)
            from pipelines.cli.outcome import show_outcome
            from pipelines.platform.table_layout import note_layout
            from pipelines.runs.run import Run

            run = Run(
                warehouse,
                call.console,
                sources=named,
                targets=targets,
                stages=stages,
                stop=stop,
                watch=watch,
            )
            outcome = run.until_stopped() if continuous else run.until_done()
            note_layout(warehouse)
        show_outcome(call.console, outcome, stages)
        unfinished = stop() and not continuous
        if outcome.code or unfinished:
            raise SystemExit(outcome.code or 1)


_stage(
    "run",
    ("bronze", "silver", "gold"),
    "Bring everything new to bronze, silver and gold.",
)
_stage("bronze", ("bronze",), "Bring new messages to bronze.messages, as received.")
_stage("silver", ("silver",), "Decode what is new in bronze to silver.cdc.")
_stage("gold", ("gold",), "Merge what is new in silver into the gold tables.")


@ingest.command()
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl+C.")
@click.option(
    "--interval",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="Between two looks of --watch. [default: 5]",
)
@click.option(
    "--check",
    is_flag=True,
    help="Only name what is parked, cannot be asked, or is beyond the bounds of `checks:`; end "
    "with 1 if anything is.",
)
@detailed
@everywhere
@click.pass_obj
def status(call: Invocation, watch: bool, interval: float | None, check: bool) -> None:
    """Show where each source and each table stands.

    Ends with 1 where some of it cannot be looked up, as of a source that cannot be reached.
    """
    if check:
        from pipelines.cli.reports import check_status

        check_status(call)
        return
    if interval is not None and not watch:
        raise click.UsageError("--interval needs --watch")
    from pipelines.cli.status import show_status
    from pipelines.cli.status import watch as watch_status

    if watch:
        watch_status(call, interval or 5)
    else:
        show_status(call)


@ingest.command()
@click.option("--source", "sources", multiple=True, metavar="S", help=_SOURCES)
@everywhere
@click.pass_obj
def plan(call: Invocation, sources: tuple[str, ...]) -> None:
    """Show what the next run would do, without doing it.

    New files and messages, what is not decoded yet, tables that would be created, merged or parked,
    and schema changes that would be applied or wait. Nothing is written.
    """
    from pipelines.cli.plan import show_plan

    show_plan(call, call.sources(sources))


@ingest.command()
@click.argument("query")
@click.option("--write", is_flag=True, help="Run a statement that changes tables, too.")
@everywhere
@click.pass_obj
def sql(call: Invocation, query: str, write: bool) -> None:
    """Run SQL on all tables and views.

    These are bronze.messages, silver.cdc and its views, gold.TABLE and history.TABLE.
    Only statements that read are run, unless --write is given.
    """
    if not write:
        from pipelines.operations.queries import check_reading

        check_reading(query)
    warehouse = call.warehouse
    from pipelines.operations.views import register

    with bad_sql(call):
        register(warehouse, query)
        frame = warehouse.session.sql(query)
        print_frame(call, frame)


@ingest.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--format", "format_", metavar="F", help="The wire format, instead of detecting it.")
@click.option("--framing", metavar="F", help="How records lie in a file. [default: lines]")
@click.option(
    "--source",
    metavar="S",
    help="Take the options, keys and types of this source; others given here override them.",
)
@click.option("--order", metavar="O", help="auto, source or arrival, as in a source's YAML.")
@click.option("--time-zone", metavar="Z", help="Of times that come without one.")
@click.option("--default-database", metavar="D", help="Where messages do not name theirs.")
@click.option("--default-schema", metavar="N", help="Where messages do not name theirs.")
@click.option("--default-table", metavar="T", help="Where messages do not name theirs.")
@click.option(
    "--epoch",
    metavar="E",
    help="Which numbering of the source: raised by one when that starts again. [default: 0]",
)
@click.option(
    "--keys",
    multiple=True,
    metavar="YAML",
    help="Key columns of a table whose messages name none: 'shop.items: [order_id, line]'",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="YAML",
    help="Column types of a table whose messages have none: 'shop.items: {made: datetime(6)}'",
)
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of the format.")
@click.option(
    "--statements",
    metavar="HOW",
    help="auto, one_partition or every_partition: which partitions a truncate empties, by arrival.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    help="How many messages to read, like 5; or a limit of one message, like"
    " message_bytes=1000000.",
)
@click.option("--newest", is_flag=True, help="The newest messages that --source has now.")
@click.option("--oldest", is_flag=True, help="The oldest messages that --source has now.")
@detailed
@everywhere
@click.pass_obj
def inspect(
    call: Invocation,
    /,
    files: tuple[str, ...],
    format_: str | None,
    framing: str | None,
    source: str | None,
    newest: bool,
    oldest: bool,
    limits: tuple[str, ...],
    **given: Any,
) -> None:
    """Decode messages and print the silver rows they become.

    The messages are those of FILEs, or of standard input, numbered from 0 as offsets are; with
    --source and no FILE, by --newest, --oldest or a number as --limit, those of the source itself,
    where they stay unread. People are shown 1,000 rows of them at most.
    What a source's YAML may say can be given here too, and is checked alike; it overrides --source.
    With --source, the targets that the tables file gives the messages' tables are listed last.
    """
    from pipelines.cli import inspect as inspection
    from pipelines.cli.source_options import table_names
    from pipelines.cli.source_tables import SourceTables

    declared = None if source is None else call.config.sources[call.sources([source])[0]]
    numbers = [text for text in limits if text.isdecimal()]
    given["limits"] = tuple(text for text in limits if not text.isdecimal())
    messages, first = None, inspection.first(numbers)
    if newest or oldest or (numbers and declared is not None and not files):
        if declared is None or files or (newest and oldest):
            raise click.UsageError("expected --newest or --oldest with --source, and no FILE")
        newest_first = newest or not oldest
        messages = inspection.sampled(declared, call.config.root, first, newest=newest_first)
    about: dict[str, Any] = {"format_": format_, "framing": framing, "source": declared}
    rows = inspection.inspect(files, given=given, messages=messages, first=first, **about)
    tables = SourceTables()
    rows = tables.of(rows)
    if call.json:
        for row in rows:
            call.console.record(row)
    else:
        from pipelines.cli import screens

        shown_rows = [
            dict(zip(inspection.SHOWN, inspection.compact(row), strict=True))
            for row in islice(rows, MOST_ROWS)
        ]
        shown = screens.inspected(shown_rows, verbose=call.verbose)
        screens.show(call.console, shown, nothing="no messages")
        # What is not shown is read all the same: which tables came is asked of all.
        if deque(rows, maxlen=1):
            call.console.say(FIRST_ROWS)
        for text in tables.routed(call.config) if declared is not None else ():
            call.console.text(text)
    for text in tables.without_columns(call.config) if declared is not None else ():
        call.console.say(text)
    for text in tables.unmatched(table_names(given["keys"])):
        call.console.say(text)


@ingest.command()
@click.argument("name", required=False)
@click.option("--codes", is_flag=True, help="The codes of errors and warnings.")
@everywhere
@click.pass_obj
def formats(call: Invocation, name: str | None, codes: bool) -> None:
    """List the wire formats, or describe the format NAME."""
    from pipelines.cli import formats as descriptions

    if codes or name is None:
        columns = descriptions.CODES if codes else descriptions.LISTED
        rows = descriptions.codes() if codes else descriptions.listed()
        if call.json:
            call.console.rows(columns, rows)
            return
        from pipelines.cli import screens

        screens.show(call.console, screens.formats(rows, columns), nothing="")
    else:
        described = descriptions.described(name)
        call.console.record(described if call.json else descriptions.for_people(described))


@ingest.command()
@everywhere
@click.pass_obj
def version(call: Invocation) -> None:
    """Show the version, and those of what it runs on."""
    if call.json:
        call.console.record(versions())
    else:
        call.console.text(_versions())


@ingest.command(hidden=True)
@click.argument("words")
@everywhere
@click.pass_context
def line(context: click.Context, words: str) -> None:
    """Run the verb that WORDS say, taken apart as a shell would.

    For schedulers that can give one text only.
    """
    try:
        arguments = shlex.split(words)
    except ValueError as error:
        raise click.UsageError(f"{words}: {error}") from None
    with ingest.make_context("ingest", arguments, parent=context.parent) as inner:
        ingest.invoke(inner)


ingest.add_command(report)
ingest.add_command(ddl)
ingest.add_command(rejects)
ingest.add_command(review)
ingest.add_command(init)
add_examples(ingest)
add_completion(ingest)


if __name__ == "__main__":
    main()
