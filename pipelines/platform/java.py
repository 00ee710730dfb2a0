"""Which Java runs the local Spark: `JAVA_HOME` where it is set, else PATH, else /usr/lib/jvm; the
process in which it does; and the memory that there is for it.

`python -m pipelines.platform.java` prints the home that fits, or one sentence and exit code 2; it
needs nothing but the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ingest.errors import PlatformError

VERSIONS = (17, 21)
INSTALLED = Path("/usr/lib/jvm")
# Spark's launcher names this module; a runtime that lacks it ends before Spark begins.
NEEDED_MODULE = "jdk.incubator.vector"
_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def find_java() -> Path:
    """Gives the home of a Java that Spark can run on.

    A `JAVA_HOME` that is set is the user's choice: it is taken or refused, never passed over.

    Raises:
        PlatformError: no such Java, or `JAVA_HOME` is another one.
    """
    if chosen := os.environ.get("JAVA_HOME"):
        found = describe(Path(chosen))
        if found is None:
            return Path(chosen)
        other = next((home for home in _homes() if describe(home) is None), None)
        way_out = (
            f"set JAVA_HOME={other}" if other else "install openjdk-17-jre-headless and set it"
        )
        raise PlatformError(
            f"Spark needs Java 17 or 21, but JAVA_HOME={chosen} is {found}; {way_out}."
        )
    seen = []
    for home in _homes():
        found = describe(home)
        if found is None:
            return home
        seen.append(f"{home} is {found}")
    found_text = "; ".join(seen) or "none on PATH or under /usr/lib/jvm"
    raise PlatformError(
        f"Spark needs Java 17 or 21, found: {found_text}. Install openjdk-17-jre-headless"
        " (or another such Java and set JAVA_HOME)."
    )


def jvm_process() -> subprocess.Popen[bytes] | None:
    """The process of Spark's JVM, if this process started it."""
    spark = sys.modules.get("pyspark.core.context")
    gateway = spark.SparkContext._gateway if spark is not None else None
    return getattr(gateway, "proc", None)


def describe(home: Path) -> str | None:
    """Says what is wrong with the Java at `home`; None if nothing is."""
    command = [str(home / "bin" / "java"), "--add-modules", NEEDED_MODULE, "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "no Java that starts"
    printed = answer.stdout + answer.stderr
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None:
        if NEEDED_MODULE in printed:
            return f"a Java without the module {NEEDED_MODULE}"
        return "a Java of unknown version"
    if int(version[1]) not in VERSIONS:
        return f"Java {version[1]}"
    return None


def _homes() -> list[Path]:
    """Every Java installed in the usual places, those on PATH first."""
    on_path = shutil.which("java")
    homes = [Path(on_path).resolve().parent.parent] if on_path else []
    homes += [java.resolve().parent.parent for java in sorted(INSTALLED.glob("*/bin/java"))]
    return list(dict.fromkeys(homes))


def allowed_memory(own: Path = _OWN, groups: Path = _GROUPS) -> int:
    """How many bytes this process may use: the machine's or, where a pod, a container or a service
    of systemd has a bound (`limits.memory`, `MemoryMax`), no more than that; 0 where nobody tells.

    Linux keeps such a bound in a control group: version 2 in `memory.max`, version 1 in
    `memory.limit_in_bytes`. It holds for the groups below, too, so all above the process are asked.
    `own` names the groups of this process, `groups` has them.
    """
    known = [_of_machine(), *_bounds(own, groups)]
    return min((size for size in known if size), default=0)


def _of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def _bounds(own: Path, groups: Path) -> Iterator[int]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A container sees its own group as the root, whatever the path says.
        group = root / path.strip("/")
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):
                # `max` where there is no bound.
                yield int((folder / name).read_text(encoding="ascii"))
            if folder == root:
                break


if __name__ == "__main__":
    try:
        print(find_java())
    except PlatformError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
