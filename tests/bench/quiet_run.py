"""`ingest run` with nothing new, start to exit, compared with a bare Spark that reads a table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table, write
from tests.bench.installation import Installation
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_EVENTS = 10_000
_ROUNDS = 3
_RUN = "from pipelines.cli.app import main; main()"
_BARE = """
import sys
from pathlib import Path
from pipelines.platform.session import spark
print(spark(warehouse=Path(sys.argv[1])).table(f"delta.`{sys.argv[2]}`").count())
"""


def run(bench: Bench) -> Iterator[Figure]:
    """Whole processes in turns; the bare one has our own session's settings and reads one table."""
    place = Installation(bench.session, bench.folder / "product", sources={"shop": "debezium"})
    table = Table(keys=bench.sized(_EVENTS) // 5, seed=bench.seed)
    write(place.landing / "shop" / "1.jsonl", table.changes(bench.sized(_EVENTS)), debezium)
    product = [_RUN, "--conf", str(place.folder / "conf"), "run"]
    target = place.folder / "warehouse" / "gold" / "shop_orders"
    bare = [_BARE, str(bench.folder / "bare"), str(target)]
    _process(product)
    mine, others = [], []
    for _ in range(_ROUNDS):
        mine.append(_process(product))
        others.append(_process(bare))
    yield Figure(
        "`ingest run` with nothing new, start to exit",
        1.3,
        ratio([cost.cpu for cost in mine], [cost.cpu for cost in others]),
        f"{mine[-1].cpu:.1f} CPU s ({mine[-1].clock:.1f} s), bare {others[-1].cpu:.1f}",
    )


def _process(words: list[str]) -> Cost:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", *words]
    return measured(
        lambda: subprocess.run(command, check=True, cwd=root, stdout=subprocess.DEVNULL)
    )
