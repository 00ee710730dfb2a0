"""What a run shows of itself while it is at work: metrics in a file, metrics and health by HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.terminal.console import Console

if TYPE_CHECKING:
    from pipelines.telemetry.reading import Reading

WRITTEN_EVERY = 10.0
"""Seconds between two writes of the file by a run that goes on."""


def watched(verb: Callable[..., Any]) -> Callable[..., Any]:
    """What a run shows of itself, and how it says what it does."""
    for option in (
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            help="Of what goes to standard error: lines for people, or a JSON object a line.",
        ),
        click.option(
            "--listen",
            metavar="HOST:PORT",
            help="With --continuous: answer /metrics, /health and /ready there.",
        ),
        click.option(
            "--metrics",
            metavar="FILE",
            help="Write metrics there, as node_exporter's textfile collector reads them.",
        ),
    ):
        verb = option(verb)
    return verb


@contextmanager
def watching(
    console: Console, *, metrics: str | None, listen: str | None
) -> Iterator[Callable[[Reading, bool], None] | None]:
    """Gives what a run is to call with each reading; None where nobody asked for any.

    Raises PlatformError where the address cannot be listened at, UsageError where it is none.
    """
    if metrics is None and listen is None:
        yield None
        return
    address = None if listen is None else _address(listen)
    # Most runs never need it.
    from pipelines.telemetry.endpoint import listening
    from pipelines.telemetry.metrics import Readings, written_before

    file = None if metrics is None else Path(metrics)
    readings = Readings(written_before(file) if file is not None else {})
    written = 0.0
    with ExitStack() as open_:
        if address is not None:
            port = open_.enter_context(listening(*address, readings))
            console.say(f"listening at {address[0]}:{port}", level="info")

        def watch(reading: Reading, last: bool) -> None:
            nonlocal written
            readings.newest = reading
            if file is None or not (last or time.monotonic() - written >= WRITTEN_EVERY):
                return
            written = time.monotonic()
            try:
                readings.write(file)
            except OSError as error:
                console.say(f"metrics were not written to {file}: {error.strerror}")

        yield watch


def _address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 2**16):
        raise click.UsageError(f"--listen: expected HOST:PORT, like 127.0.0.1:9188, got {text}")
    return host.strip("[]"), int(port)
