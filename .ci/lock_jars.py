"""Writes the hash behind every jar of the given locks: `python .ci/lock_jars.py LOCK...`."""

import re
import sys
import tempfile
from pathlib import Path

from pipelines.platform.jars import read_lock, retrieve, sha256

for lock in map(Path, sys.argv[1:]):
    jars = read_lock(lock)
    with tempfile.TemporaryDirectory() as scratch:
        retrieve(jars, Path(scratch))
        text = lock.read_text(encoding="utf-8")
        for jar in jars:
            line = f"{jar.coordinates} {sha256(Path(scratch) / jar.file)}"
            text = re.sub(rf"^{re.escape(jar.coordinates)}( .*)?$", line, text, flags=re.M)
        lock.write_text(text, encoding="utf-8")
