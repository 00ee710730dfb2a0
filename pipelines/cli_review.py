"""`ingest ddl` and `ingest rejects`: what waits for a decision, and what was set aside."""

from __future__ import annotations

import getpass

import click

from pipelines.calls import Call, everywhere


@click.group()
@everywhere
def ddl() -> None:
    """Schema changes, and what becomes of them."""


@ddl.command("list")
@click.option("--status", "wanted", metavar="S", help="Only those with this status.")
@everywhere
@click.pass_obj
def list_ddl(call: Call, wanted: str | None) -> None:
    """The schema changes that were seen."""
    from pipelines.listings import DDL, DDL_SHOWN, ddl

    call.console.rows(DDL, ddl(call.warehouse, status=wanted), shown=DDL_SHOWN)


@ddl.command("show")
@click.argument("id_", metavar="ID")
@everywhere
@click.pass_obj
def show_ddl(call: Call, id_: str) -> None:
    """All about one schema change."""
    from pipelines.listings import DDL, ddl, one

    found = one(ddl(call.warehouse), id_, what="schema change")
    call.console.record(dict(zip(DDL, found, strict=True)))


def _decision(verb: str, text: str) -> None:
    """`ingest ddl VERB`."""

    @ddl.command(verb, help=text)
    @click.argument("ids", nargs=-1, required=True, metavar="ID...")
    @click.option("--by", metavar="NAME", help="Who decides. [default: the user of the machine]")
    @click.option("--why", metavar="TEXT", help="The reason, kept in the ledger.")
    @everywhere
    @click.pass_obj
    def decide(call: Call, ids: tuple[str, ...], by: str | None, why: str | None) -> None:
        warehouse = call.warehouse
        from pipelines import review
        from pipelines.listings import DDL, DDL_SHOWN, ddl

        with call.console.waiting(f"ddl {verb}: waiting for gold to be free, then at work"):
            decided = review.decide(
                warehouse, call.config, verb, ids, by=by or getpass.getuser(), why=why
            )
        chosen = {entry.id for entry in decided}
        rows = [row for row in ddl(warehouse) if row[0] in chosen]
        call.console.rows(DDL, rows, shown=DDL_SHOWN)
        failed = [entry for entry in decided if entry.status == "failed"]
        for entry in failed:
            call.console.say(f"{entry.id} failed: {entry.why}")
        if failed:
            raise SystemExit(1)


_decision("approve", "Let schema changes into gold, now, and fill in what history has for them.")
_decision("reject", "Keep schema changes out of gold; data for them stays in silver.")


@click.group()
@everywhere
def rejects() -> None:
    """What could not be decoded or typed."""


@rejects.command("list")
@everywhere
@click.pass_obj
def list_rejects(call: Call) -> None:
    """Everything that was set aside."""
    from pipelines.listings import REJECTS, REJECTS_SHOWN, rejects

    listed = [row[: len(REJECTS)] for row in rejects(call.warehouse)]
    call.console.rows(REJECTS, listed, shown=REJECTS_SHOWN)


@rejects.command("show")
@click.argument("id_", metavar="ID")
@everywhere
@click.pass_obj
def show_reject(call: Call, id_: str) -> None:
    """All about one of them, with its bytes."""
    from pipelines.listings import REJECT, one, rejects

    found = dict(zip(REJECT, one(rejects(call.warehouse), id_, what="reject"), strict=True))
    if not call.json and found["value"] is not None:
        found["value"] = found["value"].decode("utf-8", "backslashreplace")
    call.console.record(found)


@rejects.command("replay")
@click.option("--source", "source", metavar="S", help="Only those of this source.")
@click.option("--code", "code", metavar="C", help="Only those with this code.")
@everywhere
@click.pass_obj
def replay_rejects(call: Call, source: str | None, code: str | None) -> None:
    """Decode and type again what was set aside, with today's code and configuration."""
    from ingest.codes import Code
    from ingest.errors import ConfigError, Mistake
    from ingest.mistakes import unknown_word

    sources = call.sources([source] if source is not None else [])
    codes = [known.value for known in Code]
    if code is not None and code not in codes:
        raise ConfigError([Mistake("command line", None, unknown_word("--code", code, codes))])
    warehouse = call.warehouse
    from pipelines.replay import Replayed, replay

    done = [replay(warehouse, call.config, name, code=code) for name in sources]
    rows = [(*found, found.tried - found.resolved) for both in done for found in both.stages]
    call.console.rows((*Replayed._fields, "open"), rows)
    parked = [merged for both in done for merged in both.merged if merged.error is not None]
    for merged in parked:
        call.console.say(f"table {merged.target} is parked: {merged.error}")
    if parked:
        raise SystemExit(1)
