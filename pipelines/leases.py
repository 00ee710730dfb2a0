"""One writer at a time: silver's batches are numbered, and a gold table has no two writers.

A lease is an advisory lock on a file beside the checkpoints; the operating system gives it back
when its process ends, however it ends. Who comes second waits.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lease(folder: str, name: str) -> Iterator[None]:
    """Hold the lease `name`; waits until it is free.

    Where the file system knows no locks (some mounted volumes) the platform has to keep runs apart:
    the bundle's jobs run one at a time.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lease").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
