"""`ingest review --serve`: the review of schema changes in a browser, until SIGINT or SIGTERM."""

from __future__ import annotations

from functools import partial

import click

from ingest.errors import ConfigError, Mistake
from pipelines.cli.context import Invocation, everywhere, patient

WAIT_SECONDS = 60.0
"""How long a decision waits for a run of gold, unless `--max-wait` says otherwise."""


@click.command()
@click.option("--serve", is_flag=True, required=True, help="Serve the pages on this machine.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8420,
    show_default=True,
    metavar="P",
    help="0: any that is free.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="To listen at.")
@partial(patient, waits="How long a decision waits for a run of gold. [default: 60]")
@everywhere
@click.pass_obj
def review(call: Invocation, serve: bool, port: int, host: str) -> None:
    """Review schema changes in a browser.

    Prints the address to open, which holds a token; who has it can decide. Ends with Ctrl+C.
    """
    _serve(call, host=host, port=port)


def _serve(call: Invocation, *, host: str, port: int) -> None:
    """Serve the pages, and say where. Raises ConfigError where the port cannot be had."""
    from pipelines.platform.signals import Stop, heeding_signals
    from pipelines.web.pages import check_libraries

    check_libraries()
    if call.max_wait is None:
        call.max_wait = WAIT_SECONDS
    stop = Stop()
    with heeding_signals(stop, lambda _: None) as take:
        warehouse = call.warehouse
        take()
        from pipelines.telemetry.users import machine_user
        from pipelines.web.review import LedgerReview
        from pipelines.web.server import Site, serving

        settings = call.config.settings
        warehouse_name = settings.catalog or str(settings.warehouse)
        site = Site(LedgerReview(warehouse), warehouse_name, machine_user())
        try:
            with serving(site, host=host, port=port) as address:
                if call.json:
                    call.console.record({"kind": "review", "address": address})
                call.console.text(f"{address}\n".rstrip())
                call.console.say("open this address in a browser; Ctrl+C ends")
                while not stop():
                    stop.wait(0.5)
        except OSError as error:
            text = (
                f"cannot listen at {host}:{port}: {error.strerror or error}; choose another --port"
            )
            raise ConfigError([Mistake("command line", None, text)]) from None
