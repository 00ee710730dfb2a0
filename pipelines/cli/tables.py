"""The verbs of the command that ask one target for its history, or check and repair it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ingest.errors import ConfigError, Mistake
from pipelines.cli.context import (
    FIRST_ROWS,
    MOST_ROWS,
    Invocation,
    detailed,
    everywhere,
    patient,
    print_frame,
)
from pipelines.terminal.console import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from ingest.sql.history.asof import Moment
    from pipelines.gold.known_targets import KnownTarget


_KEY = "Only changes of this key; once for each of its columns."


def _key_of(given: Sequence[str]) -> dict[str, str]:
    """One key, of `COL=VALUE` for each of its columns."""
    for one in given:
        if "=" not in one:
            raise click.UsageError(f"--key: expected COL=VALUE, got {one}")
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in given)]
    key = dict(pairs)
    if len(key) < len(pairs):
        listed = ", ".join(given)
        raise click.UsageError(
            f"--key: expected one value for each column of one key, got {listed}; "
            "one command is for one key"
        )
    return key


@click.command()
@click.argument("table")
@click.option("--key", "keys", multiple=True, metavar="COL=VALUE", help=_KEY)
@detailed
@everywhere
@click.pass_obj
def history(call: Invocation, table: str, keys: tuple[str, ...]) -> None:
    """Show every change of TABLE, or of one key, in order."""
    wanted = _key_of(keys)
    warehouse = call.warehouse
    from pipelines.operations.views import history_frame

    frame, columns = history_frame(warehouse, table, key=wanted)
    if call.json:
        print_frame(call, frame)
    else:
        _show_history(call, frame, columns)


def _show_history(call: Invocation, frame: DataFrame, columns: Mapping[str, str]) -> None:
    """The first MOST_ROWS changes, for people."""
    from ingest.sql.history.view import fixed_names
    from pipelines.cli import screens
    from pipelines.platform.rows import records

    found = records(frame.limit(MOST_ROWS + 1))
    shown = screens.history(
        found[:MOST_ROWS], [*columns], fixed_names(columns), verbose=call.verbose
    )
    screens.show(call.console, shown, nothing="no changes")
    if len(found) > MOST_ROWS:
        call.console.say(FIRST_ROWS)


@click.command("as-of")
@click.argument("table")
@click.option("--time", metavar="T", help="By event time, ISO-8601; without a zone in UTC.")
@click.option("--pos", metavar="P", help="By position, a JSON array; a prefix will do.")
@everywhere
@click.pass_obj
def as_of(call: Invocation, table: str, time: str | None, pos: str | None) -> None:
    """Show TABLE as it stood at a time or position."""
    from ingest.sql.history.asof import at_pos, at_time
    from ingest.sql.query import in_order

    if (time is None) == (pos is None):
        raise click.UsageError("expected either --time or --pos")
    if time is not None:
        moment = _moment("--time", at_time, time)
    else:
        moment = _moment("--pos", at_pos, pos or "")
    target = _target(call, table)
    from pipelines.gold.reconstruction import as_of, otherwise_since
    from pipelines.silver.transactions import unpublished

    warehouse = call.warehouse
    waits = unpublished(warehouse, target.source, until=moment.until)
    if waits is not None:
        call.console.say(
            f"source {target.source}: what is shown goes beyond what gold publishes, which waits "
            f"for the rest of {waits}"
        )
    with as_of(warehouse, target, moment) as reconstruction:
        for text in otherwise_since(reconstruction, moment):
            call.console.say(f"since then {text}; `ingest history {target.name}` has it as sent")
        shown = [name for name in reconstruction.names if name not in ("_pos", "_source")]
        reconstruction.tried(
            lambda rows: print_frame(
                call,
                warehouse.session.sql(in_order(rows, [*reconstruction.keys, "_pos"])),
                shown=shown,
            )
        )


@click.command()
@click.argument("table")
@click.option("--yes", is_flag=True, help="Confirm a change of key or mode.")
@patient
@everywhere
@click.pass_obj
def rebuild(call: Invocation, table: str, yes: bool) -> None:
    """Make gold's TABLE anew from silver, in one commit.

    The table is made as the configuration has it today: types, key, mode. What of that changes is
    printed. Without --yes, a rebuild that would change the key or mode touches nothing, and ends
    with 2.
    """
    known = _target(call, table)
    target = known.name
    from pipelines.cli.outcome import show_outcome
    from pipelines.operations.rebuild import REBUILT, rebuild
    from pipelines.runs.outcome import Outcome

    with call.console.waiting(f"rebuilding {target}"):
        done = rebuild(call.warehouse, known, confirmed=yes)
    for change in done.changes:
        call.console.say(f"{target}: {change.text}")
    if done.refused:
        text = f"`ingest rebuild {target} --yes` changes that; nothing was touched"
        raise ConfigError([Mistake("command line", None, text)])
    call.console.rows(REBUILT, [done.row(target)], shown=REBUILT[1:])
    if done.rejected:
        call.console.say(f"{done.rejected:,} set aside; `ingest rejects list` shows them")
    caught_up = Outcome(tables={(merged.source, merged.target): merged for merged in done.merged})
    show_outcome(call.console, caught_up)
    for merged in done.merged:
        if merged.error is not None:
            call.console.say(f"table {target} is parked: {merged.error}")
    if caught_up.code:
        raise SystemExit(caught_up.code)


@click.command()
@click.argument("table")
@click.option("--snapshot", metavar="PATH", help="Against this snapshot of the source instead.")
@click.option("--format", "format_", metavar="F", help="Its format. [default: by its name]")
@patient
@everywhere
@click.pass_obj
def reconcile(call: Invocation, table: str, snapshot: str | None, format_: str | None) -> None:
    """Compare gold's TABLE with its history in silver.

    Prints nothing but the missing, extra and different rows; ends with 1 where there are any. A
    snapshot is any folder or file that Spark reads: delta, parquet, orc, csv with a header, json.
    """
    if format_ is not None and snapshot is None:
        raise click.UsageError("--format needs --snapshot")
    target = _target(call, table)
    from pipelines.operations.reconcile import DIFFERENCE, reconcile, reconcile_snapshot

    warehouse = call.warehouse
    with call.console.waiting(f"reconciling {target.name}"):
        if snapshot is None:
            compared = reconcile(warehouse, target)
        else:
            compared = reconcile_snapshot(warehouse, target, path=snapshot, format_=format_)
    if compared.differences:
        call.console.rows(DIFFERENCE, compared.differences)
    call.console.say(f"{target.name}: {compared.summary}")
    if not compared.right:
        raise SystemExit(1)


@click.command()
@patient
@everywhere
@click.pass_obj
def maintain(call: Invocation) -> None:
    """Compact, cluster and trim all tables.

    Messages and changes are deleted only if retention is set, and never what still has to be
    decoded or merged; what runs noted of themselves goes after 400 days, by default.
    """
    warehouse = call.warehouse
    from pipelines.operations.maintain import MAINTAINED, maintain, steps

    with call.console.progress("maintain", steps(warehouse)) as advance:
        done = maintain(warehouse, advance=advance)
    call.console.rows(MAINTAINED, [table.row() for table in done], shown=MAINTAINED[1:])
    failed = [f"{table.table}: {text}" for table in done for text in table.failed]
    for text in failed:
        call.console.say(text)
    if failed:
        raise SystemExit(1)


@click.command()
@patient
@everywhere
@click.pass_obj
def upgrade(call: Invocation) -> None:
    """Bring tables of an earlier version to this one's layout.

    Where there is no way, it says why. Every other command on the tables refuses another layout.
    """
    call.any_layout = True
    warehouse = call.warehouse
    from pipelines.platform.table_layout import upgrade

    call.console.say(upgrade(warehouse))


@click.command()
@click.option("--source", "source", metavar="S", required=True, help="The source.")
@patient
@everywhere
@click.pass_obj
def redecode(call: Invocation, source: str) -> None:
    """Decode a source's messages again from bronze.

    Its rows in silver are replaced by what today's configuration makes of them, and its targets are
    rebuilt.
    Needed where `columns`, `format`, `options` or anything else that steers decoding was changed
    after the first run. If it is killed, run it again: everything is done once.
    """
    [name] = call.sources([source])
    warehouse = call.warehouse
    from pipelines.cli.outcome import show_outcome
    from pipelines.operations.rebuild import REBUILT
    from pipelines.operations.redecode import REDECODED, redecode
    from pipelines.runs.outcome import Outcome, SourceOutcome, too_many_rejects
    from pipelines.targets.progress import unconfirmed

    with call.console.waiting(f"decoding {name} again"):
        done = redecode(warehouse, name)
    counts = done.counts
    told = ("redecoded", name, counts.messages, counts.rows, counts.rejects, done.kept)
    call.console.rows(REDECODED, [told], shown=REDECODED[1:])
    if done.kept:
        gone = counted(done.kept, "messages")
        text = f"bronze no longer has {gone}, whose rows stay as they were"
        call.console.say(f"source {name}: {text}")
    rebuilt, merged, waiting = [], [], set()
    for target, result in done.targets.items():
        if isinstance(result, str):
            call.console.say(f"table {target} is parked: {result}")
            waiting.add(target)
            continue
        for change in result.changes:
            call.console.say(f"{target}: {change.text}")
        if result.refused:
            call.console.say(f"table {target} is parked: {unconfirmed(name, target)}")
            waiting.add(target)
        else:
            rebuilt.append(result.row(target))
            merged += result.merged
    if rebuilt:
        call.console.rows(REBUILT, rebuilt, shown=REBUILT[1:])
    # Of a target that waits one sentence is enough.
    merged += [row for row in done.merged if row.target not in waiting]
    outcome = Outcome(tables={(row.source, row.target): row for row in merged})
    show_outcome(call.console, outcome)
    for row in merged:
        if row.error is not None:
            call.console.say(f"table {row.target} is parked: {row.error}")
    decoded = SourceOutcome(
        rows=counts.rows, rejects=counts.rejects, decoded=counts.messages, changes=counts.changes
    )
    too_many = too_many_rejects(call.config.sources[name], decoded, merged)
    if too_many is not None:
        call.console.say(too_many)
    if waiting or outcome.code or too_many is not None:
        raise SystemExit(1)


@click.command()
@click.argument("table", required=False)
@click.option("--source", "source", metavar="S", help="Everything of this source.")
@click.option("--bronze", is_flag=True, help="Of a source also what bronze has of it.")
@click.option("--yes", is_flag=True, help="Do it; without, only print what would go.")
@patient
@everywhere
@click.pass_obj
def reset(call: Invocation, table: str | None, source: str | None, bronze: bool, yes: bool) -> None:
    """Remove what was made of TABLE, or of a source.

    The next run makes it anew.
    Of TABLE go the gold table, its progress, what gold set aside of it and the schema changes seen,
    with the decisions on them; silver keeps its history. Of a source go all its targets and its
    rows in silver; bronze stays, unless --bronze is given: then the next run reads what its files
    or topics still have.
    """
    if (table is None) == (source is None):
        raise click.UsageError("expected either TABLE or --source")
    if bronze and source is None:
        raise click.UsageError("--bronze needs --source")
    from pipelines.operations.reset import RESET, of_source, of_target, reset_source, reset_target
    from pipelines.silver import projects

    if source is not None:
        [what] = call.sources([source])
        projects.check_owner(call.warehouse, what)
        emptied = of_source(call.warehouse, what, bronze=bronze)
        if yes:
            emptied = reset_source(call.warehouse, what, bronze=bronze)
    else:
        what, owner = _made_target(call, table or "")
        if owner in call.config.sources:
            projects.check_owner(call.warehouse, owner)
        emptied = of_target(call.warehouse, owner, what)
        if yes:
            emptied = reset_target(call.warehouse, owner, what)
    call.console.rows(RESET, [gone.row() for gone in emptied], shown=RESET[1:])
    if not yes:
        again = f"`ingest reset {what if source is None else f'--source {what}'}"
        again += f"{' --bronze' if bronze else ''} --yes`"
        text = f"nothing was touched; {again} takes this away"
        raise ConfigError([Mistake("command line", None, text)])


@click.command()
@click.argument("table")
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    metavar="COL=VALUE",
    help="Whose rows; once for each column of the key.",
)
@click.option("--reason", metavar="TEXT", help="Why, for gold._erasures.")
@click.option("--vacuum", is_flag=True, help="Remove earlier versions at once, and prove it.")
@click.option("--yes", is_flag=True, help="Do it; without, only print what would go.")
@patient
@everywhere
@click.pass_obj
def erase(
    call: Invocation, table: str, keys: tuple[str, ...], reason: str | None, vacuum: bool, yes: bool
) -> None:
    """Take a person out of all tables.

    That is out of bronze, silver, gold and what was set aside. The person is a key of TABLE, with
    the keys that it had before and later. Other rows of the same messages stay in silver. With
    --vacuum every earlier version of the tables goes, too, so that nobody may be reading one, and
    what is left is looked through. Where that was not done, or where it was cut short, the same
    again goes on from there.
    """
    key = _key_of(keys)
    target = _target(call, table)
    from pipelines.privacy.erasure import ERASED, erase

    with call.console.waiting(f"erasing from {target.name}"):
        done = erase(
            call.warehouse,
            target,
            key=key,
            reason=reason,
            confirmed=yes,
            vacuum=vacuum,
        )
    call.console.rows(ERASED, done.rows(), shown=ERASED[1:])
    if done.shared:
        beside = counted(done.shared, "changes")
        call.console.say(f"what stays: {beside} of others that came in those messages")
    if not done.counts and done.erasure is None:
        call.console.say(f"nothing of that key is in {target.name} or its history")
    elif not yes:
        text = "nothing was touched; the same with `--yes` takes this away"
        raise ConfigError([Mistake("command line", None, text)])
    elif done.erasure is not None:
        told: str | None = (
            "earlier versions of the tables still have it: the same with `--vacuum` removes them, "
            "once nobody reads one, and proves it"
        )
        if done.erasure.status == "proved":
            told = done.erasure.proof
        call.console.say(f"erasure {done.erasure.id[:12]} is {done.erasure.status}; {told}")


TABLE_VERBS = (history, as_of, rebuild, redecode, reset, reconcile, erase, maintain, upgrade)


def _target(call: Invocation, table: str) -> KnownTarget:
    """The target that is meant."""
    warehouse = call.warehouse
    from pipelines.gold.known_targets import target_called

    return target_called(warehouse, table)


def _made_target(call: Invocation, table: str) -> tuple[str, str]:
    """A target that was made, be it there or gone, and the source that feeds it. Of a reset that
    was cut short its schema changes may be all that is left."""
    warehouse = call.warehouse
    from pipelines.gold.known_targets import one_of
    from pipelines.ledger.entries import load_entries
    from pipelines.targets.progress import is_target, load_progress

    entries = load_entries(warehouse).values()
    fed = {entry.target: entry.table.source for entry in entries if entry.target is not None}
    fed |= {target: source for source, target in load_progress(warehouse) if is_target(target)}
    target = one_of(table, fed, warehouse.settings)
    return target, fed[target]


def _moment(option: str, read: Callable[[str], Moment], text: str) -> Moment:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError([Mistake("command line", None, f"`{option}`: {error}")]) from None
