"""The command `ingest`: the verbs, their options, their exit codes.

0 done; 1 the work was done except for what standard error names; 2 a mistake in the command or the
configuration, nothing was touched. Verbs import what they need when they run, so that those without
Spark answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ingest.errors import ConfigError, IngestError, PlatformError
from pipelines.calls import Call, bad_sql, everywhere, print_frame
from pipelines.cli_review import ddl, rejects
from pipelines.table_verbs import TABLE_VERBS


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; returns where all went well, else raises SystemExit with 1 or 2.

    Platforms that call this function take every SystemExit for a failure, also one with 0.
    """
    try:
        ingest.main(args=arguments, prog_name="ingest")
    except SystemExit as end:
        if end.code:
            raise
    except ConfigError as error:
        _end(str(error), 2)
    except IngestError as error:
        _end(str(error), 2 if isinstance(error, PlatformError) else 1)
    except Exception as error:
        from pipelines.failures import described

        _end(described(error), 1)


def _end(text: str, code: int) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr)
    raise SystemExit(code) from None


@click.group()
@everywhere
def ingest() -> None:
    """Change messages of databases to one unified history and to current tables."""


for table_verb in TABLE_VERBS:
    ingest.add_command(table_verb)


@ingest.command()
@everywhere
@click.pass_obj
def validate(call: Call) -> None:
    """Read all YAML and report every mistake at once."""
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
            "files" if source.files is not None else "kafka",
            source.order,
            len(config.tables[name].tables),
        )
        for name, source in config.sources.items()
    ]
    call.console.rows(columns, rows, shown=columns[1:])
    call.console.text(f"{call.conf}: no mistakes")


def _stage(name: str, stages: tuple[str, ...], text: str) -> None:
    """Add one of the verbs that bring messages forward."""

    @ingest.command(name, help=text)
    @click.option("--source", "sources", multiple=True, metavar="S", help="Only this source.")
    @click.option("--table", "tables", multiple=True, metavar="T", help="Only this target table.")
    @click.option("--continuous", is_flag=True, help="Go on until SIGTERM or SIGINT.")
    @everywhere
    @click.pass_obj
    def verb(
        call: Call, sources: tuple[str, ...], tables: tuple[str, ...], continuous: bool
    ) -> None:
        named = call.sources(sources)
        from pipelines.known_targets import check_reachable

        targets = [check_reachable(table, call.config) for table in tables] or None
        from pipelines.signals import Stop, heeding_signals

        stop = Stop()
        with heeding_signals(stop, call.console.say) as take:
            warehouse = call.warehouse
            take()
            from pipelines.runs import Run

            run = Run(
                warehouse,
                call.config,
                call.console,
                sources=named,
                targets=targets,
                stages=stages,
                stop=stop,
            )
            outcome = run.until_stopped() if continuous else run.until_done()
        outcome.show(call.console, stages)
        unfinished = stop() and not continuous
        if outcome.code or unfinished:
            raise SystemExit(outcome.code or 1)


_stage(
    "run",
    ("bronze", "silver", "gold"),
    "Bring everything new to bronze, silver and gold, then end.",
)
_stage("bronze", ("bronze",), "Bring new messages to bronze.messages, as received.")
_stage("silver", ("silver",), "Decode what is new in bronze to silver.cdc.")
_stage("gold", ("gold",), "Merge what is new in silver into the gold tables.")


@ingest.command()
@everywhere
@click.pass_obj
def status(call: Call) -> None:
    """Where each source and each table stands."""
    warehouse = call.warehouse
    from pipelines.known_targets import gold_tables
    from pipelines.status import SOURCE, TABLE, source_rows, table_rows
    from pipelines.unmatched import unmatched

    console = call.console
    sources = source_rows(warehouse, call.config)
    with console.progress("tables", len(gold_tables(warehouse))) as advance:
        tables = table_rows(warehouse, call.config, advance=advance)
    console.rows(SOURCE, sources, shown=SOURCE[1:])
    if tables or call.json:
        console.rows(TABLE, tables, shown=TABLE[1:])
    for text in unmatched(warehouse, call.config, [*call.config.sources]):
        console.say(text)


@ingest.command()
@click.argument("query")
@everywhere
@click.pass_obj
def sql(call: Call, query: str) -> None:
    """Run SQL on bronze.messages, silver.cdc and its views, gold.TABLE and history.TABLE."""
    warehouse = call.warehouse
    from pipelines.catalog import register

    with bad_sql(call):
        register(warehouse, call.config, query)
        frame = warehouse.session.sql(query)
        print_frame(call, frame)


@ingest.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--format", "format_", metavar="F", help="The wire format, instead of detecting it.")
@click.option("--framing", metavar="F", help="How records lie in a file. [default: lines]")
@click.option("--source", metavar="S", help="Take options, keys and types from this source's YAML.")
@everywhere
@click.pass_obj
def inspect(
    call: Call,
    files: tuple[str, ...],
    format_: str | None,
    framing: str | None,
    source: str | None,
) -> None:
    """Decode messages of FILEs, or of standard input, and print their silver rows."""
    from pipelines import inspection

    declared = None if source is None else call.config.sources[call.sources([source])[0]]
    rows = inspection.inspect(files, format_=format_, framing=framing, source=declared)
    if call.json:
        for row in rows:
            call.console.record(row)
    else:
        call.console.rows(inspection.SHOWN, [inspection.compact(row) for row in rows])


@ingest.command()
@click.argument("name", required=False)
@click.option("--codes", is_flag=True, help="The codes of errors and warnings.")
@everywhere
@click.pass_obj
def formats(call: Call, name: str | None, codes: bool) -> None:
    """The wire formats, or all about the format NAME."""
    from pipelines import descriptions

    if codes:
        call.console.rows(descriptions.CODES, descriptions.codes())
    elif name is None:
        call.console.rows(descriptions.LISTED, descriptions.listed())
    else:
        described = descriptions.described(name)
        call.console.record(described if call.json else descriptions.for_people(described))


ingest.add_command(ddl)
ingest.add_command(rejects)
