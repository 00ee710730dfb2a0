"""The product as a zip, which `--py-files` brings to a driver: docs/spark-submit.md."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
