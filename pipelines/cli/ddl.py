"""`ingest ddl`: the schema changes that were seen, and the decisions on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipelines.cli.context import Invocation, detailed, everywhere, patient


@click.group()
@everywhere
def ddl() -> None:
    """Review schema changes: list, show, approve or reject them."""


@ddl.command("list")
@click.option(
    "--status",
    "wanted",
    metavar="S",
    help="Only those with this status, like pending, failed or applied.",
)
@detailed
@everywhere
@click.pass_obj
def list_ddl(call: Invocation, wanted: str | None) -> None:
    """List the schema changes that were seen."""
    from pipelines.operations.listings import ddl

    _show_changes(call, ddl(call.warehouse, status=wanted))


def _show_changes(call: Invocation, changes: Sequence[dict[str, Any]]) -> None:
    if call.json:
        for change in changes:
            call.console.record(change)
        return
    from pipelines.cli import screens
    from pipelines.ledger.entries import load_entries

    shown = screens.schema_changes(changes, load_entries(call.warehouse), verbose=call.verbose)
    screens.show(call.console, shown, nothing="no schema changes")


@ddl.command("show")
@click.argument("id_", metavar="ID")
@everywhere
@click.pass_obj
def show_ddl(call: Invocation, id_: str) -> None:
    """Show all about one schema change."""
    from pipelines.operations.listings import one_ddl

    call.console.record(one_ddl(call.warehouse, id_))


def _decision(verb: str, text: str) -> None:
    """`ingest ddl VERB`."""

    @ddl.command(verb, help=text)
    @click.argument("ids", nargs=-1, required=True, metavar="ID...")
    @click.option("--by", metavar="NAME", help="Who decides. [default: the user of the machine]")
    @click.option("--why", metavar="TEXT", help="The reason, kept in the ledger.")
    @patient
    @everywhere
    @click.pass_obj
    def decide(call: Invocation, ids: tuple[str, ...], by: str | None, why: str | None) -> None:
        warehouse = call.warehouse
        from pipelines.operations import decisions
        from pipelines.operations.listings import ddl
        from pipelines.telemetry.users import machine_user

        with call.console.waiting(f"ddl {verb}: waiting for gold to be free, then at work"):
            decided, refused = decisions.decide(
                warehouse, verb, ids=ids, by=by or machine_user(), why=why
            )
        chosen = {entry.id for entry in decided}
        _show_changes(call, [change for change in ddl(warehouse) if change["id"] in chosen])
        failed = [entry for entry in decided if entry.status == "failed"]
        for entry in failed:
            call.console.say(f"{entry.id} failed: {entry.why}")
        for entry in decided:
            if verb == "approve" and entry.status == "approved":
                call.console.say(
                    f"{entry.id} is approved, and the next `ingest run` carries it out: a run was "
                    f"killed while it made {entry.target}, which is finished first"
                )
        for text in refused:
            call.console.say(text)
        if failed or refused:
            raise SystemExit(1)


_decision(
    "approve",
    "Let schema changes into gold, now.\n\nColumns are filled with what history has for them.",
)
_decision("reject", "Keep schema changes out of gold; data for them stays in silver.")
