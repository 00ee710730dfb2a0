"""The wheel by `--py-files`, as docs/spark-submit.md has it: the cluster's Python has what the
product depends on, and the product is in the zip alone, on the driver as on the executors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.platform.jars import fetch
from pipelines.platform.session import HERE
from tests.platform.test_cluster import check_rows, projects
from tests.support.spark_cluster import DOCUMENTED, HOME, SMALL, environment, python_in

ROOT = Path(__file__).parents[2]
EXECUTORS = "local-cluster[2,1,640]"
"""Two, each a process of its own that Spark starts as a worker does."""


def wheel(folder: Path) -> Path:
    """`make wheel`, then the name that Spark takes."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [built] = folder.glob("*.whl")
    return Path(shutil.copy(built, folder / "ingest.zip"))


RESOURCES = """
from types import SimpleNamespace
from pipelines.platform import session
from pipelines.reporting.page import page
from pipelines.web.pages import STYLE, message_page
from tests.reporting.test_page import NOTHING

assert ".zip" in session.__file__
assert "color" in STYLE.read_text(encoding="utf-8") and "gone" in message_page("title", "gone")
known = iter((False, True))
session._knows_kafka = lambda session: next(known)
session.connect_kafka(SimpleNamespace(sql=print))
print(page(NOTHING, [], warehouse_name="lake"))
"""


def test_what_is_no_code_is_read_from_the_zip_too(tmp_path: Path) -> None:
    packed = tmp_path / "ingest.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for package in ("ingest", "pipelines"):
            for file in sorted((ROOT / package).rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, file.relative_to(ROOT))
    path = os.pathsep.join(map(str, (packed, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", RESOURCES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "ADD JAR 'file:///" in done.stdout and "<html" in done.stdout


@pytest.mark.slow
def test_the_wheel_alone_is_enough(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = projects(tmp_path, capsys, count=200, checkpoints="checkpoints")
    folder = there.folder
    python_in(folder / "python")
    python = str(folder / "python" / "bin" / "python")
    lone = {name: text for name, text in environment().items() if name != "PYTHONPATH"}
    lone |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    imports = [python, "-c", "import pipelines"]
    lacks = subprocess.run(imports, cwd=folder, env=lone, capture_output=True)
    assert b"No module named 'pipelines'" in lacks.stderr
    settings = {
        **{**DOCUMENTED, **SMALL},
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "tables"),
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", EXECUTORS]
    command += ["--jars", ",".join(map(str, fetch(HERE / "delta.jars")))]
    command += ["--py-files", str(wheel(tmp_path))]
    command += [word for item in settings.items() for word in ("--conf", "=".join(item))]
    command += [str(ROOT / "pipelines" / "cli" / "app.py"), "--conf", str(folder / "conf")]
    for words in (
        *(("run",), ("maintain",), ("reconcile", "shop_item")),
        ("report", "--out", "report.html"),
    ):
        done = subprocess.run(
            [*command, *words],
            cwd=folder,
            env=lone,
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, (words, done.stdout[-2000:] + done.stderr[-4000:])
    assert "shop_item" in (folder / "report.html").read_text(encoding="utf-8")
    check_rows(spark, here, there)
