"""Classes of Spark that the JVM finds ready: half of what a short command costs without.

A JVM that starts Spark finds, reads and checks some 12,000 classes. With class data sharing
(JEP 350, https://openjdk.org/jeps/350, in every Java from 13 on) one writes what it has loaded to
an archive as it ends, and those after it map that into their memory.

`python -m pipelines.platform.class_archive` makes the archive, once for an installation: in the
image of a container, or after each upgrade. An archive is named by all that it was made of, so that
another Java, jar or environment has another one; the JVM looks as well, and goes on without an
archive that does not fit. An archive takes some 150 MB; MOST of them are kept.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from ingest.errors import PlatformError
from pipelines.platform.jars import cache

MOST = 3
"""How many archives are kept: those that were used last."""
_MAGIC = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""How an archive begins (OpenJDK's `cds.h`); the JVM writes its beginning last."""
_PATIENCE = 120.0
"""Seconds that a JVM may take to write what it has loaded."""
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""What puts folders on the class path, of which no JVM makes an archive."""
_LOADING = """
import sys
from pathlib import Path
from pipelines.platform.session import spark

place = Path(sys.argv[1])
session = spark(warehouse=place)
numbers, table = session.range(3).selectExpr("id", "current_timestamp() at"), str(place / "numbers")
numbers.write.format("delta").save(table)
session.sql(
    f"MERGE INTO delta.`{table}` t USING (SELECT 2L id UNION ALL SELECT 3L) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
)
print(session.read.format("delta").load(table).orderBy("id").toArrow().num_rows)
"""
"""What a run loads: a session, a table of Delta Lake written, merged and read."""


def java_options(java: Path, spark: Path, jars: Iterable[Path]) -> list[str]:
    """The options with which Spark's JVM uses the archive of its classes; none without one.

    Args:
        java: the home of the Java that starts.
        spark: the home of Spark, whose jars and settings its launcher puts on the class path.
        jars: what else stands there.
    """
    try:
        archive = _archive(java, spark, jars)
        os.utime(archive)
    except OSError:
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]


def make(java: Path, spark: Path, jars: Iterable[Path]) -> Path:
    """Makes the archive that `java_options` finds, by a Spark that is started for it; some 20 s.

    Raises:
        PlatformError: folders on the class path forbid it, Spark does not start, or the JVM leaves
            none.
    """
    named = [name for name in _FOLDERS if os.environ.get(name)]
    if named or (spark / "conf").is_dir():
        found = ", ".join(named) or str(spark / "conf")
        raise PlatformError(f"expected jars alone on the class path, got the folders of {found}.")
    archive = _archive(java, spark, jars)
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=archive.parent) as scratch:
        draft = Path(scratch) / "draft.jsa"
        options = f'"-XX:ArchiveClassesAtExit={draft}" -Xlog:cds=off -Xlog:cds+dynamic=off'
        command = [sys.executable, "-c", _LOADING, scratch]
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise PlatformError(f"expected Spark to start and write a table, got: {said}")
        deadline = time.monotonic() + _PATIENCE
        while not _whole(draft):
            if time.monotonic() > deadline:
                raise PlatformError(f"expected the JVM of {java} to leave its classes, got none.")
            time.sleep(0.2)
        draft.replace(archive)
    for file in sorted(archive.parent.glob("*.jsa"), key=_used)[:-MOST]:
        file.unlink()
    return archive


def _archive(java: Path, spark: Path, jars: Iterable[Path]) -> Path:
    """Where the archive of all these files lies, as they are now."""
    digest = hashlib.sha256()
    for file in (java / "lib" / "modules", *sorted((spark / "jars").glob("*.jar")), *jars):
        found = file.stat()
        # As the JVM looks at them: copies of files, as in an image's layers, keep no fractions.
        digest.update(f"{file} {found.st_size} {int(found.st_mtime)}\n".encode())
    return cache().parent / "classes" / f"{digest.hexdigest()[:16]}.jsa"


def _used(archive: Path) -> float:
    return archive.stat().st_mtime


def _whole(draft: Path) -> bool:
    try:
        with draft.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except FileNotFoundError:
        return False


def main() -> None:
    """Make the archive of this installation, if it lacks one, and say where it lies; fetch the jars
    of Kafka sources as well, so that nothing is left to fetch later."""
    from pyspark.find_spark_home import _find_spark_home

    from pipelines.platform.jars import fetch
    from pipelines.platform.java import find_java

    try:
        jars = fetch(Path(__file__).parent / "delta.jars")
        print(make(find_java(), Path(_find_spark_home()), jars))
        fetch(Path(__file__).parent / "kafka.jars")
    except PlatformError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
