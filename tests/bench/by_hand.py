"""The job written by hand, in a Spark of its own with everything but Delta Lake left at defaults.

As a process: `python -m tests.bench.by_hand TARGET` reads one line a batch, the file to apply, and
answers each with a line when it is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.platform import session
from pipelines.platform.jars import fetch
from pipelines.platform.java import find_java
from tests.bench import baseline

_DELTA = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")


@contextmanager
def by_hand(target: Path) -> Iterator[Callable[[Path], None]]:
    """Starts that process for the Delta table `target`; what is given applies one batch."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.by_hand", str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        words, answers = process.stdin, process.stdout

        def answered(word: str) -> None:
            if not any(line.strip() == word for line in answers):
                raise RuntimeError(f"the job by hand ended before {word!r}: {process.wait()}")

        def merge(file: Path) -> None:
            words.write(f"{file}\n")
            words.flush()
            answered("done")

        answered("ready")
        yield merge


def _serve(target: Path) -> None:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java())
    jars = fetch(Path(session.__file__).parent / "delta.jars")
    settings: dict[str, bool | float | int | str | None] = {
        **{name: session.SETTINGS[name] for name in _DELTA},
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": str(target.parent / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
    baseline.create(spark, target)
    print("ready", flush=True)
    for line in sys.stdin:
        baseline.merge(baseline.folded(spark, Path(line.strip())), target)
        print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
