"""`ingest report` and `ingest status --check`: the page to look at, and what a scheduler asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ingest.errors import ConfigError, Mistake, PlatformError
from pipelines.cli.context import Invocation, everywhere

if TYPE_CHECKING:
    from pipelines.reporting.checks import Finding

CHECK = ("kind", "check", "on", "bound", "found", "text")


@click.command()
@click.option(
    "--out",
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="Where to write it.",
)
@everywhere
@click.pass_obj
def report(call: Invocation, out: str) -> None:
    """Write one HTML page on how everything stands.

    It needs nothing else, no network either: open it, mail it, keep it.
    """
    file = _file(out)
    from pipelines.reporting.checks import findings
    from pipelines.reporting.facts import STEPS, facts
    from pipelines.reporting.page import check_libraries, page

    check_libraries()
    warehouse = call.warehouse
    with call.console.progress("report", STEPS) as advance:
        gathered = facts(warehouse, advance=advance)
    failing = findings(warehouse.settings.checks, gathered.sources, gathered.tables)
    html = page(gathered, failing, warehouse_name=_warehouse_name(call))
    try:
        _write(file, html.encode())
    except OSError as error:
        raise PlatformError(f"cannot write {out}: {error.strerror}; choose another --out") from None
    call.console.rows(("kind", "file", "bytes"), [("report", out, len(html.encode()))])
    for text in gathered.failed:
        call.console.say(text)
    if gathered.failed:
        raise SystemExit(1)


def _file(out: str) -> Path:
    """Where the page goes, before it is made. A folder that is not there is no more made than by
    others that write one file: its name may be a slip, and nobody would look there."""
    file = Path(out)
    got = None
    if file.is_dir():
        got = "a folder"
    elif not file.parent.is_dir():
        got = f"and there is no folder {file.parent}; make it, or choose another"
    if got is not None:
        text = f"`--out`: expected a file in a folder that is there, got {out}, {got}"
        raise ConfigError([Mistake("command line", None, text)])
    return file


def _write(file: Path, html: bytes) -> None:
    """Readers of the file find the page before or this one, whole; a link stays one, and what is no
    file, as `/dev/stdout`, is written to."""
    from pipelines.platform.checkpoints import write_whole

    if file.exists() and not file.is_file():
        file.write_bytes(html)
    else:
        write_whole(file.resolve(), html)


def check_status(call: Invocation) -> None:
    """Name what is parked or beyond its bounds, and tell the webhook where that has changed."""
    warehouse = call.warehouse
    from pipelines.operations.status import source_rows, table_rows
    from pipelines.platform.failures import described_of
    from pipelines.reporting.checks import findings
    from pipelines.reporting.webhook import tell
    from pipelines.terminal.console import Advance

    unknown: list[str] = []

    def failed(what: str, error: Exception) -> None:
        unknown.append(described_of(what, error))

    quiet = Advance(lambda _, __: None)
    # Their rows say why they cannot be asked, which is a finding.
    sources = source_rows(warehouse, failed=lambda _, __: None)
    tables = table_rows(warehouse, advance=quiet, failed=failed, counting=False)
    failing = findings(warehouse.settings.checks, sources, tables)
    _show(call, failing, well=not (failing or unknown))
    webhook = warehouse.settings.checks.webhook
    if webhook:
        wrong = tell(warehouse, webhook, failing, warehouse_name=_warehouse_name(call))
        unknown += [wrong] if wrong is not None else []
    for text in unknown:
        call.console.say(text)
    if failing or unknown:
        raise SystemExit(1)


def _show(call: Invocation, failing: list[Finding], *, well: bool) -> None:
    """Programs get each as an object; people read each on standard error."""
    if call.json:
        call.console.rows(CHECK, [("check", *finding) for finding in failing])
    for finding in failing:
        call.console.say(finding.text)
    if well:
        call.console.text("no table is parked, and every check passes")


def _warehouse_name(call: Invocation) -> str:
    """What the warehouse is called by people."""
    settings = call.config.settings
    return settings.catalog or f"{call.config.root.name}/{Path(settings.warehouse).name}"
