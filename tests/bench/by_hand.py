"""The job written by hand, in a Spark of its own with everything but Delta Lake left at defaults.

As a process: `python -m tests.bench.by_hand TARGET` reads one line a batch, the file to apply, and
answers each with a line when it is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from pipelines import session
from pipelines.jars import fetch
from pipelines.java import find_java
from tests.bench import baseline


class ByHand:
    """That process, while entered; `target` is its Delta table."""

    def __init__(self, target: Path) -> None:
        self._command = [sys.executable, "-m", "tests.bench.by_hand", str(target)]

    def __enter__(self) -> ByHand:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._await("ready")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def merge(self, file: Path) -> None:
        """Apply one batch."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{file}\n")
        self._process.stdin.flush()
        self._await("done")

    def _await(self, word: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise RuntimeError(f"the job by hand ended with {self._process.wait()} before {word!r}")


def _serve(target: Path) -> None:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java())
    jars = os.pathsep.join(map(str, fetch(Path(session.__file__).parent / "delta.jars")))
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.driver.memory", "4g")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.sql.warehouse.dir", str(target.parent / "spark"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    baseline.create(spark, target)
    print("ready", flush=True)
    for line in sys.stdin:
        baseline.merge(baseline.folded(spark, Path(line.strip())), target)
        print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
