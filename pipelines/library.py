"""The product from Python: what the command does, in a Spark session of one's own.

    from ingest import load
    from pipelines import Warehouse, run, spark

    config = load("conf")
    session = spark(warehouse=Path(config.settings.warehouse))
    warehouse = Warehouse(config, session)
    outcome = run(warehouse)

What the command would print on standard error goes to the logger `pipelines`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from ingest.sql.history.asof import at_pos, at_time
from pipelines.gold import reconstruction
from pipelines.gold.known_targets import target_called
from pipelines.operations import rebuild as rebuilding
from pipelines.operations import reconcile as reconciling
from pipelines.operations.rebuild import Rebuilt
from pipelines.operations.reconcile import Reconciled
from pipelines.platform.secrets import without_any
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.outcome import Outcome
from pipelines.runs.run import Run
from pipelines.terminal.console import Console
from pipelines.terminal.log import Level

STAGES = ("bronze", "silver", "gold")
_LOGGER = logging.getLogger("pipelines")


class _Logged(Console):
    """Says nothing on standard error."""

    def say(self, text: str, *, level: Level = "warning", **about: Any) -> None:
        """Log the line."""
        _LOGGER.info("%s", self.hide(text))


def run(
    warehouse: Warehouse,
    *,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    stages: Sequence[str] = STAGES,
) -> Outcome:
    """Bring everything new to bronze, silver and gold, as `ingest run` does.

    Of `sources` and for `targets` alone where they are given. A source or table that fails is in
    the outcome, whose `code` is that of the command, and the others go on.
    """
    named = list(sources) if sources is not None else list(warehouse.config.sources)
    console = _Logged(json=True)
    console.hide = partial(without_any, config=warehouse.config)
    at_work = Run(
        warehouse,
        console,
        sources=named,
        targets=targets,
        stages=stages,
        stop=Stop(),
    )
    return at_work.until_done()


def rebuild(warehouse: Warehouse, target: str, *, confirmed: bool = False) -> Rebuilt:
    """Make a target anew from silver, as `ingest rebuild` does; `confirmed`: also where that
    changes its key or mode.

    Raises ConfigError where there is no such target, TableError where it can have no rows.
    """
    return rebuilding.rebuild(warehouse, target_called(warehouse, target), confirmed=confirmed)


def reconcile(warehouse: Warehouse, target: str) -> Reconciled:
    """Compare a target with its history, as `ingest reconcile` does; `right` says whether they
    agree.

    Raises ConfigError where there is no such target, TableError where it has no table.
    """
    return reconciling.reconcile(warehouse, target_called(warehouse, target))


def as_of(
    warehouse: Warehouse,
    target: str,
    *,
    time: str | None = None,
    pos: str | None = None,
) -> DataFrame:
    """A target as it stood at a time (ISO 8601, without a zone in UTC) or at a position (a JSON
    array, of which a prefix will do), with the columns that gold adds.

    Raises ConfigError where there is no such target, TableError where retention took away what
    would tell, ValueError for a moment that is none.
    """
    if (time is None) == (pos is None):
        raise ValueError("expected either time or pos")
    moment = at_time(time) if time is not None else at_pos(pos or "")
    known = target_called(warehouse, target)
    with reconstruction.as_of(warehouse, known, moment) as past_state:
        # Evaluated here: what it reads from is taken back behind.
        return past_state.tried(lambda rows: past_state.typed(rows).localCheckpoint())
