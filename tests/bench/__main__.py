"""`python -m tests.bench [NAME…]`: measure, and print one table.

Each benchmark compares in one run of one process, so its ratios hold on any machine; the absolute
numbers are this machine's.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from pipelines.platform.session import spark
from tests.bench import (
    avro_cost,
    decode_cost,
    end_to_end,
    endurance,
    growing_messages,
    growth,
    inspecting,
    late_events,
    latency,
    listing,
    many_tables,
    quiet_run,
    rebuilding,
    ten_formats,
    transports,
    versions_cost,
    wide_rows,
)
from tests.bench.figures import Bench, Figure

BENCHES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "decode": decode_cost.run,
    "avro": avro_cost.run,
    "growing_messages": growing_messages.run,
    "ten_formats": ten_formats.run,
    "end_to_end": end_to_end.run,
    "many_tables": many_tables.run,
    "late": late_events.run,
    "latency": latency.run,
    "rebuild": rebuilding.run,
    "versions": versions_cost.run,
    "growth": growth.run,
    "inspect": inspecting.run,
    "quiet": quiet_run.run,
    "transports": transports.run,
    "listing": listing.run,
    "wide": wide_rows.run,
    "endurance": endurance.run,
}


def main() -> int:
    """Measure what is named, everything by default."""
    asked = _asked()
    root = Path(tempfile.mkdtemp(prefix="ingest-bench-", dir=asked.folder))
    figures = []
    try:
        session = spark(warehouse=root)
        for name in asked.names or BENCHES:
            began = time.monotonic()
            for figure in BENCHES[name](Bench(session, root / name, asked.scale, asked.seed)):
                figures.append(figure)
                print(f"{figure.name}: {figure.measured:.2f} {figure.unit}", file=sys.stderr)
            shutil.rmtree(root / name, ignore_errors=True)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        session.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if asked.json:
        for figure in figures:
            print(orjson.dumps({**figure._asdict(), "reached": figure.reached}).decode())
    else:
        _show(figures, scale=asked.scale)
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; 1 is full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one object a figure")
    parser.add_argument("--folder", type=Path, help="where to work; 10 GB at full size")
    asked = parser.parse_args()
    for name in asked.names:
        if name not in BENCHES:
            parser.error(f"expected {', '.join(BENCHES)}, got {name}")
    return asked


def _show(figures: list[Figure], *, scale: float) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = (
        f"{os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}, "
        f"scale {scale:g}"
    )
    table = Table(title=machine, title_justify="left")
    table.add_column("figure")
    table.add_column("target", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("numbers")
    for figure in figures:
        colour = "green" if figure.reached else "red"
        table.add_row(
            figure.name,
            f"{figure.target:g} {figure.unit}",
            f"[{colour}]{figure.measured:.2f} {figure.unit}[/]",
            figure.numbers,
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    sys.exit(main())
