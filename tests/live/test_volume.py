"""A large table, its snapshot taken under load and its changes after it, ends equal to the source.

Debezium reads PostgreSQL while two sessions write as sysbench does, and `ingest run` goes over what
comes until nothing more does. How many messages each of its batches brought, and how old the oldest
of them was when it was in gold, is drawn to `dist/live/volume.html`. INGEST_LIVE_ROWS: how many
rows (20,000; try 1,000,000 on a machine of your own).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live import connectors, volume
from tests.live.connectors import Running, reading, start_engines
from tests.live.report import SAID
from tests.live.servers import Server, connect
from tests.live.workload import FINISHED
from tests.support.project import Project

ROWS = int(os.environ.get("INGEST_LIVE_ROWS", "20000"))
STREAMED_FOR = 30.0
"""Seconds of load after the snapshot is taken."""
WITHIN = 600.0 + ROWS / 200
REPORT = Path(__file__).parents[2] / "dist" / "live" / "volume.html"
_PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title><style>
:root {{ --ink: #222; --faint: #777; --line: #ddd; --c1: #2a6fb0; --c2: #c2571a }}
body {{ font: 15px sans-serif; color: var(--ink); max-width: 45rem; margin: 2rem auto }}
</style><h1>{title}</h1><p>{text}</p>{plots}
"""


class Batch(NamedTuple):
    """Messages that came to gold at once. `at`: seconds from the first message until they did;
    `lag`: seconds from the oldest of them until then."""

    at: float
    messages: int
    lag: float


def test_a_large_table_under_load_ends_equal(
    start: Callable[[str], AbstractContextManager[Server]],
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    connector = connectors.POSTGRESQL[0]
    table = f"gold.shop_{volume.TABLE}"
    with ExitStack() as stack:
        server = stack.enter_context(start("postgresql"))
        volume.prepare(server, ROWS)
        _execute(server, f"CREATE TABLE {FINISHED} (id int PRIMARY KEY)")
        running = stack.enter_context(reading(server, tmp_path, connectors=(connector,)))
        project.write(f"conf/sources/{connector.name}.yml", running.source(connector))
        played: list[int] = []
        driver = threading.Thread(target=_drive, args=(server, running, stack, played))
        driver.start()
        deadline = time.monotonic() + WITHIN
        while not running.has_finished(connector):
            assert time.monotonic() < deadline, "the last change has not come"
            answer = project.ingest("run")
            assert answer.code == 0, answer.err
            time.sleep(0.5)
        driver.join(30)
        answer = project.ingest("run")
        assert answer.code == 0, answer.err
        answer = project.ingest("--json", "sql", volume.sums_query(table))
        assert answer.code == 0, answer.err
        gold = [(int(r["bucket"]), int(r["count"]), int(r["hash"])) for r in answer.records]
        assert gold == volume.sums(server)
    assert sum(count for _, count, _ in gold) == ROWS
    text = _report(_batches(project), *played)
    pytestconfig.stash[SAID].append(text)


def _drive(server: Server, running: Running, stack: ExitStack, played: list[int]) -> None:
    """Load while the snapshot is taken and after it, then the mark that all is done."""
    with volume.load(server, ROWS) as transactions:
        start_engines(server, running, stack)
        deadline = time.monotonic() + WITHIN
        while not running.have_snapshots() and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(STREAMED_FOR)
    played.append(transactions())
    _execute(server, f"INSERT INTO {FINISHED} VALUES (1)")


def _execute(server: Server, statement: str) -> None:
    with closing(connect(server)) as connection:
        connection.execute(statement)


def _batches(project: Project) -> list[Batch]:
    """What came to gold at once: all that was in bronze when it was written, and not before."""
    query = (
        "SELECT double(ingested_at) at, count(*) messages, double(min(timestamp)) oldest"
        " FROM bronze.messages GROUP BY ingested_at ORDER BY 1"
    )
    answer = project.ingest("--json", "sql", query)
    log = project.folder / "warehouse" / "gold" / f"shop_{volume.TABLE}" / "_delta_log"
    written = sorted(_written(file) for file in log.glob("*.json"))
    counts: Counter[float] = Counter()
    oldest: dict[float, float] = {}
    for record in answer.records:
        done = next((at for at in written if at >= record["at"]), None)
        # The last batch may hold the mark alone.
        if done is not None:
            counts[done] += record["messages"]
            oldest[done] = min(record["oldest"], oldest.get(done, done))
    began = min(oldest.values())
    return [Batch(at - began, counts[at], at - oldest[at]) for at in sorted(counts)]


def _written(commit: Path) -> float:
    """When a commit of Delta Lake was written."""
    lines = map(json.loads, commit.read_text(encoding="utf-8").splitlines())
    millis = next(line["commitInfo"]["timestamp"] for line in lines if "commitInfo" in line)
    return float(millis) / 1000


def _report(batches: list[Batch], transactions: int) -> str:
    """Draws the batches; gives the sentence on them."""
    from pipelines.reporting.plots import lines

    labels = [f"{batch.at:.0f} s" for batch in batches]
    starts = [0.0, *(batch.at for batch in batches)]
    rate = [
        round(batch.messages / (batch.at - start), 1)
        for start, batch in zip(starts, batches, strict=False)
    ]
    messages, took = sum(batch.messages for batch in batches), batches[-1].at
    text = (
        f"{ROWS:,} rows and {transactions:,} transactions: {messages:,} messages in {took:.0f} s,"
        f" {messages / took:,.0f} a second; at most {max(batch.lag for batch in batches):.0f} s"
        f" until a message is in gold, {batches[-1].lag:.0f} s at the end"
    )
    series = {"messages a second": rate, "seconds until in gold": [b.lag for b in batches]}
    plots = "".join(f"<h2>{name}</h2>{lines(labels, {name: one})}" for name, one in series.items())
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    title = "Snapshot and stream of a large table"
    REPORT.write_text(_PAGE.format(title=title, text=text, plots=plots), encoding="utf-8")
    return f"{text}; drawn in {REPORT}"
