"""`ingest inspect` of one message, the whole process: under half a second (of processor time)."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.figures import Bench, Figure

_ROUNDS = 5
_MESSAGE = {
    **{"database": "shop", "table": "items", "type": "INSERT", "pkNames": ["id"], "isDdl": False},
    **{"data": [{"id": "1", "name": "pen"}], "es": 5, "ts": 6, "id": 7, "old": None, "sql": ""},
}
_SOURCE = "name: shop\nformat: canal\nfiles: {path: landing/*.jsonl}\n"


def run(bench: Bench) -> Iterator[Figure]:
    """The median, by file alone and with the options of a source."""
    sources = bench.folder / "conf" / "sources"
    sources.mkdir(parents=True)
    (sources / "shop.yml").write_text(_SOURCE)
    file = bench.folder / "message.json"
    file.write_text(json.dumps(_MESSAGE))
    start = "from pipelines.cli.app import main; main()"
    conf = ["--conf", str(bench.folder / "conf"), "inspect", "--json", str(file)]
    for name, words in (("", []), (" --source", ["--source", "shop"])):
        command = [sys.executable, "-c", start, *conf, *words]
        spent = [_spent(command) for _ in range(_ROUNDS)]
        rounds = ", ".join(f"{seconds:.2f}" for seconds in spent)
        yield Figure(f"inspect{name}", 0.5, statistics.median(spent), f"runs: {rounds}", "CPU s")


def _spent(command: list[str]) -> float:
    """CPU seconds of one process, which is gone before it could be looked at."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
