"""From Kafka to gold in seconds, event by event: a continuous run, a real broker, a steady rate.

What is measured is not taken from what the run says of itself. An event is in gold as of the first
commit of its target whose row of that key stands at its offset or a later one, and a commit is
there when its file in Delta's log is. The time that it took is counted from the timestamp that the
producer gave the message.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from confluent_kafka import Producer

from tests.bench.figures import Bench, Figure
from tests.support.kafka_broker import broker, create_topic
from tests.support.project import canal

ROOT = Path(__file__).parents[2]
RATES = (10, 100, 1_000)
"""Events a second."""
_TABLES = 5
_KEYS = 2_000
_SECONDS = 180.0
_WARMUP = 60.0
_ENDS_WITHIN = 120.0
_OFFSET = 8
"""Where the offset stands in `_pos`."""
_RUN = "from pipelines.cli.app import main; main()"
_GOAL = 10.0


class _Sent(NamedTuple):
    """An event by its offset: its table and key, and when it was sent."""

    table: int
    key: int
    at: float


def run(bench: Bench) -> Iterator[Figure]:
    """A figure for each rate: nineteen of twenty events took at most so long."""
    (bench.folder / "kafka").mkdir(parents=True)
    with broker(bench.folder / "kafka") as kafka:
        for rate in RATES:
            yield _measured(bench, kafka.bootstrap, rate)


def _measured(bench: Bench, servers: str, rate: int) -> Figure:
    folder, topic = bench.folder / str(rate), f"shop{rate}"
    create_topic(servers, topic)
    source = {"name": "shop", "format": "canal", "order": "arrival"}
    kafka = {"bootstrap_servers": servers, "topics": [topic]}
    (folder / "conf/sources").mkdir(parents=True)
    (folder / "conf/ingest.yml").write_text("{}\n")
    (folder / "conf/sources/shop.yml").write_text(json.dumps({**source, "kafka": kafka}))
    words = [sys.executable, "-c", _RUN, "--conf", str(folder / "conf"), "run", "--continuous"]
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
    try:
        sent = _send(servers, topic, rate, seconds=_WARMUP + max(30.0, _SECONDS * bench.scale))
        _await_end(folder, sent)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(_ENDS_WITHIN)
        finally:
            process.kill()
    if code:
        raise AssertionError(f"expected the run to end with 0, got {code}: {folder / 'run.log'}")
    taken = _taken(folder, sent)
    warm = sorted(
        taken[offset] for offset, event in enumerate(sent) if event.at > sent[0].at + _WARMUP
    )
    p50, p95, p99 = (warm[int(part * len(warm))] for part in (0.5, 0.95, 0.99))
    return Figure(
        f"from Kafka to gold, {rate:,} events a second in {_TABLES} tables, p95",
        _GOAL,
        p95,
        f"p50 {p50:.1f} s, p99 {p99:.1f}, most {warm[-1]:.1f}; {_said(bench, folder)}",
        unit="s",
    )


def _send(servers: str, topic: str, rate: int, *, seconds: float) -> list[_Sent]:
    """Inserts and updates at a steady rate; what was sent, by offset."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0})
    sent: list[_Sent] = []
    began = time.time()
    padding = "x" * 500
    while (passed := time.time() - began) < seconds:
        while len(sent) < passed * rate:
            number = len(sent)
            event = _Sent(number % _TABLES, number % _KEYS, time.time())
            row = {"id": str(event.key), "name": f"{number} {padding}", "price": f"{number}.25"}
            at = int(event.at * 1000)
            message = canal(f"t{event.table}", _operation(number), row, es=at, id_=number)
            producer.produce(topic, json.dumps(message).encode(), timestamp=at, partition=0)
            sent.append(event)
        producer.poll(0)
        time.sleep(min(0.05, 1 / rate))
    if producer.flush(60):
        raise AssertionError("expected the broker to take every message")
    return sent


def _operation(number: int) -> str:
    return "INSERT" if number < _KEYS else "UPDATE"


def _await_end(folder: Path, sent: Sequence[_Sent]) -> None:
    """Return once gold has the last event."""
    deadline = time.monotonic() + _ENDS_WITHIN
    while time.monotonic() < deadline:
        if len(_taken(folder, sent, only=len(sent) - 1)) == 1:
            return
        time.sleep(1)
    raise AssertionError(f"expected gold to have the last event within {_ENDS_WITHIN:.0f} s")


def _taken(folder: Path, sent: Sequence[_Sent], *, only: int | None = None) -> dict[int, float]:
    """By offset the seconds until an event was in gold; `only`: of this one."""
    taken: dict[int, float] = {}
    for table in range(_TABLES):
        waiting: dict[int, list[int]] = defaultdict(list)
        for offset, event in enumerate(sent):
            if event.table == table and only in (None, offset):
                waiting[event.key].append(offset)
        if not waiting:
            continue
        for at, key, reached in _rows(folder / f"warehouse/gold/shop_t{table}", waiting):
            there = [offset for offset in waiting[key] if offset <= reached]
            waiting[key] = waiting[key][len(there) :]
            taken |= {offset: at - sent[offset].at for offset in there}
    if only is None and len(taken) != len(sent):
        raise AssertionError(f"expected {len(sent)} events in gold, got {len(taken)}")
    return taken


def _rows(table: Path, keys: Any) -> Iterator[tuple[float, int, int]]:
    """Of each commit: when it was there, then key and offset of each row that it wrote."""
    names: dict[str, str] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        at = commit.stat().st_mtime
        for line in commit.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is None or not added["dataChange"]:
                continue
            names = names or _physical(table)
            held = pq.read_table(table / added["path"], columns=list(names.values()))
            columns = (held[names[name]].to_pylist() for name in ("id", "_pos"))
            for key, pos in zip(*columns, strict=True):
                if key in keys:
                    yield at, key, pos[_OFFSET]


def _physical(table: Path) -> dict[str, str]:
    """What `id` and `_pos` are called in the table's files."""
    for line in (table / "_delta_log" / f"{0:020}.json").read_text().splitlines():
        if "metaData" in (action := json.loads(line)):
            fields = json.loads(action["metaData"]["schemaString"])["fields"]
            return {
                field["name"]: field["metadata"].get(
                    "delta.columnMapping.physicalName", field["name"]
                )
                for field in fields
                if field["name"] in ("id", "_pos")
            }
    raise AssertionError(f"expected the columns of {table} in its first commit, got none")


def _said(bench: Bench, folder: Path) -> str:
    """What the run says of itself in `gold._runs`, after its first minute."""
    runs = bench.session.read.format("delta").load(str(folder / "warehouse/gold/_runs"))
    rows = [row for row in runs.orderBy("part").collect() if row.arrival_latency_p95 is not None]
    warm = rows[1:] or rows
    parts = (max(row[f"arrival_latency_{part}"] for row in warm) for part in ("p50", "p95", "p99"))
    return "its own rows say at most {:.3g}, {:.3g}, {:.3g}".format(*parts)
