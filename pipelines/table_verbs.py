"""The verbs of the command that ask one target for its history, or check and repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ingest.errors import ConfigError, Mistake
from pipelines.calls import Call, everywhere, print_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.asof import Moment
    from pipelines.known_targets import Ways


@click.command()
@click.argument("table")
@click.option("--key", "keys", multiple=True, metavar="COL=VALUE", help="Only changes of this key.")
@everywhere
@click.pass_obj
def history(call: Call, table: str, keys: tuple[str, ...]) -> None:
    """Every change of TABLE, or of one of its keys, in order."""
    wanted = dict(key.partition("=")[::2] for key in keys)
    if not all("=" in key for key in keys):
        raise click.UsageError(f"--key: expected COL=VALUE, got {' '.join(keys)}")
    warehouse = call.warehouse
    from pipelines.catalog import history_frame
    from pipelines.history import shown

    frame, columns = history_frame(warehouse, call.config, table, wanted)
    print_frame(call, frame, shown=shown(columns))


@click.command("as-of")
@click.argument("table")
@click.option("--time", metavar="T", help="By event time, ISO-8601; without a zone in UTC.")
@click.option("--pos", metavar="P", help="By position, a JSON array; a prefix will do.")
@everywhere
@click.pass_obj
def as_of(call: Call, table: str, time: str | None, pos: str | None) -> None:
    """TABLE as it stood at a time or position, folded from history."""
    from ingest.asof import at_pos, at_time

    if (time is None) == (pos is None):
        raise click.UsageError("expected either --time or --pos")
    moment = _moment("--time", at_time, time) if time else _moment("--pos", at_pos, pos or "")
    target, ways = _target(call, table)
    from ingest.shape import column
    from pipelines.standing import as_of

    warehouse = call.warehouse
    with as_of(warehouse, call.config, target, ways[target], moment) as standing:
        shown = [name for name in standing.names if name not in ("_pos", "_source")]
        order = ", ".join([*map(column, standing.keys), "_pos"])
        standing.tried(
            lambda rows: print_frame(
                call,
                warehouse.session.sql(f"SELECT * FROM ({rows}) ORDER BY {order}"),
                shown=shown,
            )
        )


@click.command()
@click.argument("table")
@everywhere
@click.pass_obj
def rebuild(call: Call, table: str) -> None:
    """Gold of TABLE anew from silver, swapped in when it is complete."""
    target, ways = _target(call, table)
    from pipelines.rebuild import REBUILT, rebuild
    from pipelines.runs import Outcome

    with call.console.waiting(f"rebuilding {target}"):
        done = rebuild(call.warehouse, call.config, target, ways)
    call.console.rows(REBUILT, [done.row(target)], shown=REBUILT[1:])
    caught_up = Outcome(tables={(merged.source, merged.target): merged for merged in done.merged})
    caught_up.show(call.console, ())
    for merged in done.merged:
        if merged.error is not None:
            call.console.say(f"table {target} is parked: {merged.error}")
    if caught_up.code:
        raise SystemExit(caught_up.code)


@click.command()
@click.argument("table")
@click.option("--snapshot", metavar="PATH", help="Against this snapshot of the source instead.")
@click.option("--format", "format_", metavar="F", help="Its format. [default: by its name]")
@everywhere
@click.pass_obj
def reconcile(call: Call, table: str, snapshot: str | None, format_: str | None) -> None:
    """Gold of TABLE against the fold of silver: missing, extra and different rows.

    Prints nothing but the differences; ends with 1 where there are any. A snapshot is any folder or
    file that Spark reads: delta, parquet, orc, csv with a header, json.
    """
    if format_ is not None and snapshot is None:
        raise click.UsageError("--format is that of a --snapshot")
    target, ways = _target(call, table)
    from pipelines.reconcile import DIFFERENCE, reconcile, reconcile_snapshot

    warehouse, config = call.warehouse, call.config
    with call.console.waiting(f"reconciling {target}"):
        if snapshot is None:
            found = reconcile(warehouse, config, target, ways)
        else:
            found = reconcile_snapshot(warehouse, config, target, ways, snapshot, format_)
    if found.differences:
        call.console.rows(DIFFERENCE, found.differences)
    call.console.say(f"{target}: {found.told}")
    if not found.equal:
        raise SystemExit(1)


@click.command()
@everywhere
@click.pass_obj
def maintain(call: Call) -> None:
    """Compaction, clustering, retention of all tables; touches nothing that is not applied."""
    warehouse, config = call.warehouse, call.config
    from pipelines.maintain import MAINTAINED, maintain, steps

    with call.console.progress("maintain", steps(warehouse)) as advance:
        done = maintain(warehouse, config, advance=advance)
    call.console.rows(MAINTAINED, [table.row() for table in done], shown=MAINTAINED[1:])


TABLE_VERBS = (history, as_of, rebuild, reconcile, maintain)


def _target(call: Call, table: str) -> tuple[str, Ways]:
    """The target that is meant, and where every target's rows come from."""
    warehouse = call.warehouse
    from pipelines.known_targets import known, one_of

    ways = known(warehouse, call.config).ways
    return one_of(table, ways, warehouse.settings), ways


def _moment(option: str, read: Callable[[str], Moment], text: str) -> Moment:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError([Mistake("command line", None, f"`{option}`: {error}")]) from None
