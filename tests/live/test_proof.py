"""Real servers under a random load arrive in gold equal to `SELECT *`, through every connector.

The connectors of one server read it at once, each into a source of one warehouse. `ingest run` goes
over what has come while the load goes on, once with a kill in the middle.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.live import connectors
from tests.live.comparison import Values, differences
from tests.live.connectors import Connector, Running, reading, start_engines
from tests.live.servers import Server
from tests.live.workload import TABLES, Workload
from tests.support.killing import POINTS
from tests.support.project import Project

# Thousands of queries over a handful of rows: a seed takes half the time.
pytestmark = pytest.mark.usefixtures("spark")

ROOT = Path(__file__).parents[2]
TRANSACTIONS = int(os.environ.get("INGEST_LIVE_TRANSACTIONS", "240"))
SEEDS = range(1, 1 + int(os.environ.get("INGEST_LIVE_SEEDS", "2")))
# One seed is for `make test-long`, too.
PARAMETERS = [
    pytest.param(seed, marks=[pytest.mark.long] if seed == SEEDS[0] else []) for seed in SEEDS
]
PAUSE = 0.01  # seconds between transactions
SNAPSHOTS_WITHIN = 120.0  # seconds


@pytest.mark.parametrize("seed", PARAMETERS)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_gold_is_what_the_server_holds(
    kind: str,
    seed: int,
    start: Callable[[str], AbstractContextManager[Server]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    wanted = connectors.POSTGRESQL if kind == "postgresql" else connectors.MYSQL
    with ExitStack() as stack:
        server = stack.enter_context(start(kind))
        load = Workload(server, seed, tables=_tables(seed))
        load.prepare()
        running = stack.enter_context(reading(server, tmp_path, connectors=wanted))
        _configure(project, running)
        _play(project, running, load=load, server=server, stack=stack, seed=seed)
        answer = project.ingest("run")
        assert answer.code == 0, answer.err
        found = [
            json.dumps(reject) for reject in project.ingest("--json", "rejects", "list").records
        ]
        with closing(Values(server)) as values:
            for connector in wanted:
                found += _compared(project, values, connector, load)
    assert found == [], "\n".join(found)


def _tables(seed: int) -> Sequence[str]:
    """The first seed plays all tables, every other one three of them: a seed costs by the tables
    that its runs change."""
    return TABLES if seed == SEEDS[0] else random.Random(seed).sample(TABLES, 3)


def _configure(project: Project, running: Running) -> None:
    project.write("conf/ingest.yml", "ddl: {destructive: apply}\n")
    for connector in running.connectors:
        project.write(f"conf/sources/{connector.name}.yml", running.source(connector))
        target = f"{connector.name}_{{table}}"
        text = f"source: {connector.name}\ntables: [{{from: '*', target: '{target}'}}]\n"
        project.write(f"conf/tables/{connector.name}.yml", text)


def _play(
    project: Project,
    running: Running,
    *,
    load: Workload,
    server: Server,
    stack: ExitStack,
    seed: int,
) -> None:
    """The load, with snapshots begun in its middle and runs over what has come so far."""
    steps = load.transactions(TRANSACTIONS)
    for _ in itertools.islice(steps, TRANSACTIONS // 6):
        pass
    start_engines(server, running, stack)
    _until_snapshots(running, load)
    for _ in itertools.islice(steps, TRANSACTIONS // 2):
        time.sleep(PAUSE)
    running.take()
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    for _ in itertools.islice(steps, TRANSACTIONS // 6):
        time.sleep(PAUSE)
    running.take()
    _killed(project, POINTS[seed % len(POINTS)])
    for _ in steps:
        time.sleep(PAUSE)
    load.finish()
    running.wait()


def _until_snapshots(running: Running, load: Workload) -> None:
    """Rows change while snapshots are taken, but no table: a snapshot in whose middle a table
    changes is begun again, and of rows deleted in between no connector tells."""
    deadline = time.monotonic() + SNAPSHOTS_WITHIN
    while not running.have_snapshots():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no snapshot within {SNAPSHOTS_WITHIN:.0f} s")
        load.overlap()
        time.sleep(5 * PAUSE)


def _killed(project: Project, point: str) -> None:
    """A run that is killed at a point of its way."""
    command = [sys.executable, "-m", "tests.support.killing", point]
    command += ["--conf", str(project.folder / "conf"), "run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


def _compared(project: Project, values: Values, connector: Connector, load: Workload) -> list[str]:
    found = []
    for table in load.tables.values():
        if connector.name == "wal2json_1" and table.name in load.truncated:
            # It is listed: version 1 does not send truncates.
            continue
        gold = _gold(project, f"{connector.name}_{table.name}")
        found += differences(values, connector, table, server=values.rows(table), gold=gold)
    return found


def _gold(project: Project, target: str) -> list[dict[str, Any]]:
    answer = project.ingest("--json", "sql", f"SELECT * FROM gold.{target}")
    assert answer.code == 0, answer.err
    return [json.loads(line, parse_float=str) for line in answer.out.splitlines()]
