"""What runs of silver's stream leave behind in a process that goes on after them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.project import Project, canal

RUNS = 5


def _connections() -> int:
    """How many connections the JVM keeps by which its threads have called this process."""
    gateway: Any = SparkContext._gateway
    client = gateway.java_gateway_server.getCallbackClient()
    field = client.getClass().getSuperclass().getDeclaredField("connections")
    field.setAccessible(True)
    return int(field.get(client).size())


def test_no_thread_is_left_behind(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write(
        "conf/sources/shop.yml", "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
    )
    before: set[threading.Thread] = set()
    for number in range(1 + RUNS):
        row = {"id": str(number)}
        message = canal("items", "INSERT", row, es=number, id_=number, types={"id": "int"})
        project.land(f"{number}.jsonl", [message])
        for stage in ("bronze", "silver"):
            assert project.ingest(stage).code == 0
        before = before or set(threading.enumerate())

    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in before]

    until = time.monotonic() + 10
    while left() and time.monotonic() < until:
        time.sleep(0.1)
    # One stays by which the JVM tells what it has collected, once it has.
    assert len(left()) <= 1, left()
    # That one, that of the last run, and that of the run before.
    assert _connections() <= 3
