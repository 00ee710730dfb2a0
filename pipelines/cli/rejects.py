"""`ingest rejects`: what was set aside, to be looked at, tried again or dismissed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from pipelines.cli.context import MOST_ROWS, Invocation, detailed, everywhere, patient


@click.group()
@everywhere
def rejects() -> None:
    """Count, list, show, replay or dismiss what was set aside."""


def _narrowing(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which rejects."""
    for option in (
        click.option("--status", metavar="S", help="Only open, resolved or dismissed ones."),
        click.option("--code", metavar="C", help="Only those with this code."),
        click.option("--source", metavar="S", help="Only those of this source."),
    ):
        verb = option(verb)
    return verb


@rejects.command("list")
@_narrowing
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"At most so many. [default: {MOST_ROWS}; all with --json]",
)
@detailed
@everywhere
@click.pass_obj
def list_rejects(
    call: Invocation, source: str | None, code: str | None, status: str | None, limit: int | None
) -> None:
    """List what was set aside, one row each."""
    from pipelines.operations.listings import REJECTS, SUMMARY, Wanted, rejects, summary

    if source is not None:
        [source] = call.sources([source])
    most = MOST_ROWS if limit is None and not call.json else limit
    # People are not shown the bytes.
    wanted = Wanted(source, code, status, limit=most, values=call.json)
    listed_rows = (row[: len(REJECTS)] for row in rejects(call.warehouse, wanted))
    if call.json:
        call.console.rows(REJECTS, listed_rows)
        return
    listed = list(listed_rows)
    _show_rejects(call, listed)
    if limit is None and len(listed) == most:
        kinds = summary(call.warehouse, wanted)
        more = sum(kind[SUMMARY.index("count")] for kind in kinds) - len(listed)
        if more:
            call.console.say(f"and {more:,} more; `--limit {len(listed) + more}` shows all")


def _show_rejects(call: Invocation, rows: Sequence[Sequence[Any]]) -> None:
    """Rejects for people, the columns REJECTS."""
    from pipelines.cli import screens
    from pipelines.operations.listings import REJECTS, ids_like

    found = [dict(zip(REJECTS, row, strict=True)) for row in rows]
    among = ids_like(call.warehouse, {row["id"][: screens.ID_LETTERS] for row in found})
    shown = screens.rejects(found, among, verbose=call.verbose)
    screens.show(call.console, shown, nothing="nothing was set aside")


@rejects.command("summary")
@_narrowing
@everywhere
@click.pass_obj
def summarize_rejects(
    call: Invocation, source: str | None, code: str | None, status: str | None
) -> None:
    """Count what was set aside, by source, target and code."""
    from pipelines.operations.listings import SUMMARY, Wanted, summary

    if source is not None:
        [source] = call.sources([source])
    call.console.rows(SUMMARY, summary(call.warehouse, Wanted(source, code, status)))


@rejects.command("show")
@click.argument("id_", metavar="ID")
@everywhere
@click.pass_obj
def show_reject(call: Invocation, id_: str) -> None:
    """Show all about one of them, with its bytes.

    The beginning of its ID is enough.
    """
    from pipelines.operations.listings import REJECT, reject

    record = dict(zip(REJECT, reject(call.warehouse, id_), strict=True))
    if not call.json and record["value"] is not None:
        record["value"] = record["value"].decode("utf-8", "backslashreplace")
    call.console.record(record)


@rejects.command("dismiss")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--source", metavar="S", help="All open ones of this source.")
@click.option("--code", metavar="C", help="All open ones with this code.")
@click.option("--why", required=True, metavar="TEXT", help="The reason, kept with the reject.")
@click.option("--by", metavar="NAME", help="Who decides. [default: the user of the machine]")
@patient
@everywhere
@click.pass_obj
def dismiss_rejects(
    call: Invocation,
    ids: tuple[str, ...],
    source: str | None,
    code: str | None,
    why: str,
    by: str | None,
) -> None:
    """Mark rejects as dealt with.

    These are the ones named by ID, or all open ones of a source or code.

    They no longer count, and no replay tries them: a change among them is in no row from then on.
    """
    if bool(ids) == (source is not None or code is not None):
        raise click.UsageError("expected either IDs, or --source, --code or both")
    if source is not None:
        [source] = call.sources([source])
    from pipelines.operations.dismissals import dismiss, dismiss_all
    from pipelines.operations.listings import REJECTS, SUMMARY
    from pipelines.telemetry.users import machine_user

    by = by or machine_user()

    if not ids:
        dismissed = dismiss_all(call.warehouse, source=source, code=code, by=by, why=why)
        call.console.rows(SUMMARY, dismissed)
        if not dismissed:
            call.console.say("there is no open reject of these")
        return
    done = dismiss(call.warehouse, ids, by=by, why=why)
    rows = [row[: len(REJECTS)] for row in done]
    if call.json:
        call.console.rows(REJECTS, rows)
    else:
        _show_rejects(call, rows)


@rejects.command("replay")
@click.option("--source", "source", metavar="S", help="Only those of this source.")
@click.option("--code", "code", metavar="C", help="Only those with this code.")
@patient
@everywhere
@click.pass_obj
def replay_rejects(call: Invocation, source: str | None, code: str | None) -> None:
    """Try again what was set aside.

    With today's code and configuration.
    """
    from ingest.codes import Code
    from ingest.config.mistakes import unknown_word
    from ingest.errors import ConfigError, Mistake

    sources = call.sources([source] if source is not None else [])
    codes = [known.value for known in Code]
    if code is not None and code not in codes:
        raise ConfigError([Mistake("command line", None, unknown_word("--code", code, codes))])
    warehouse = call.warehouse
    from pipelines.operations.replay import Replay, Replayed, replay
    from pipelines.platform.failures import described

    done: list[Replay] = []
    failed = False
    for name in sources:
        try:
            done.append(replay(warehouse, name, code=code))
        except Exception as error:
            # What one source meets is its own.
            failed = True
            call.console.say(f"source {name} failed: {described(error)}")
    rows = [(*found, found.tried - found.resolved) for both in done for found in both.stages]
    call.console.rows((*Replayed._fields, "open"), rows)
    parked = [merged for both in done for merged in both.merged if merged.error is not None]
    for merged in parked:
        call.console.say(f"table {merged.target} is parked: {merged.error}")
    if parked or failed:
        raise SystemExit(1)
