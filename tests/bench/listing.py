"""A bucket of many files listed, compared with one of a tenth: a real S3 protocol, by Hadoop's s3a.

As a process: `serve FILES…` runs the server, with a bucket for each of these numbers, `list FILES…`
lists each of them in turns.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.bronze.file_log import Listed
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.processes import measured
from tests.support.s3_server import KEYS, settings

_FILES = 100_000
_FOLDERS = 100
_ROUNDS = 3


def run(bench: Bench) -> Iterator[Figure]:
    """CPU a file, without the server's."""
    many = bench.sized(_FILES)
    few = many // 10
    with _server(few, many) as address:
        found = _listed(bench.folder, address, few, many)
    costs = {
        count: [one["cpu"] / count * 1e6 for one in found[1:] if one["files"] == count]
        for count in (few, many)
    }
    last = found[-1]
    yield Figure(
        f"list a bucket of {many:,} files, a file compared with one of {few:,}",
        1.1,
        ratio(costs[many], costs[few]),
        f"{min(costs[many]):.0f} µs a file, {last['clock']:.0f} s with the server's part; the most "
        f"memory of Python {last['python']:.0f} MB, {found[0]['python']:.0f} before",
    )


@contextmanager
def _server(*counts: int) -> Iterator[str]:
    """The address of a server with the buckets."""
    words = [sys.executable, "-m", "tests.bench.listing", "serve", *map(str, counts)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _listed(folder: Path, address: str, *counts: int) -> list[Mapping[str, float]]:
    """What each listing took, in the order in which they were made."""
    folder.mkdir(parents=True)
    given = "".join(f"{name} {value}\n" for name, value in settings(address).items())
    (folder / "spark-defaults.conf").write_text(given)
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.listing", "list", *map(str, counts)],
        env={**os.environ, **KEYS, "SPARK_CONF_DIR": str(folder)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: list[Mapping[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _serve(counts: list[int]) -> None:
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    store: Any = s3_backends["123456789012"]["aws"]
    for count in counts:
        store.create_bucket(f"files-{count}", "us-east-1")
        for number in range(count):
            name = f"in/day={number % _FOLDERS:03}/{number:06}.jsonl"
            store.put_object(f"files-{count}", name, b"x")
    server: Any = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    print(f"http://127.0.0.1:{port}", flush=True)
    time.sleep(3600)


def _list(counts: list[int]) -> None:
    from pipelines.platform.session import spark

    session = spark(warehouse=Path(tempfile.mkdtemp(prefix="ingest-bench-")))
    found = []
    for turn in range(1 + _ROUNDS):
        for count in counts:
            one = _one(session, count)
            # The first listings warm up.
            if turn or count == counts[0]:
                found.append(one)
    print(json.dumps(found))
    session.stop()


def _one(session: SparkSession, count: int) -> dict[str, float]:
    """What it takes to list a bucket: CPU and clock in seconds, the most memory so far in MB."""
    from pipelines.bronze.listing import list_uri

    files: list[Listed] = []
    pattern = f"s3a://files-{count}/in/*/*.jsonl"
    cost = measured(lambda: files.extend(list_uri(session, "shop", pattern)))
    assert len(files) == count, f"expected {count} files, got {len(files)}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"files": count, "cpu": cost.cpu, "clock": cost.clock, "python": memory}


if __name__ == "__main__":
    {"serve": _serve, "list": _list}[sys.argv[1]](list(map(int, sys.argv[2:])))
