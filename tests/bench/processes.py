"""CPU and memory of this process and all that it started: the JVM and Spark's Python workers.

Read from /proc, so Linux only. What a Python worker used would be lost when it ends, since PySpark
does not wait for its workers: all processes are looked at twice a second, and the last reading of
each is kept.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Cost(NamedTuple):
    """Seconds: CPU of the JVM, CPU of the Python processes, and by the clock."""

    jvm: float = 0.0
    python: float = 0.0
    clock: float = 0.0

    @property
    def cpu(self) -> float:
        """CPU of the whole tree."""
        return self.jvm + self.python

    def plus(self, other: Cost) -> Cost:
        """The sum, part by part."""
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))


class _Process(NamedTuple):
    pid: int
    parent: int
    name: str
    started: int
    cpu: float


def measured(work: Callable[[], object], *, but: Collection[int] = ()) -> Cost:
    """What it costs to do `work`. `but`: processes that have no part in it, by their ids; those
    that they started are left out, too."""
    seen: dict[tuple[int, int], _Process] = {}
    before = _look(seen, but)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            _look(seen, but)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        work()
    finally:
        over.set()
        thread.join()
    return Cost(*(end - start for start, end in zip(before, _look(seen, but), strict=True)))


def _look(seen: dict[tuple[int, int], _Process], but: Collection[int]) -> Cost:
    """CPU so far of all processes there are, and of those in `seen`, to which they are added."""
    for process in _tree(but):
        seen[process.pid, process.started] = process
    jvm = sum(process.cpu for process in seen.values() if process.name == "java")
    every = sum(process.cpu for process in seen.values())
    return Cost(jvm, every - jvm, time.monotonic())


def cpu_of(roots: Collection[int]) -> float:
    """CPU seconds so far of processes, by their ids, and of those that they started."""
    return sum(process.cpu for process in _below(roots))


def _tree(but: Collection[int] = ()) -> list[_Process]:
    """This process and its descendants, without those of `but` and theirs."""
    return _below({os.getpid()}, but)


def _below(roots: Collection[int], but: Collection[int] = ()) -> list[_Process]:
    """The processes `roots` and their descendants, without those of `but` and theirs."""
    children: dict[int, list[_Process]] = {}
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            process = _process(int(folder.name))
            if process is not None and process.pid not in but:
                children.setdefault(process.parent, []).append(process)
                if process.pid in roots:
                    found.append(process)
    for process in found:
        found.extend(children.get(process.pid, ()))
    return found


def _process(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold any character.
    name, rest = text.split("(", 1)[1].rsplit(")", 1)
    fields = rest.split()
    # utime, stime, cutime, cstime: fields 14 to 17 of proc(5), here counted from field 3. The JVM
    # waits for the commands it runs; other children are looked at themselves.
    cpu = sum(int(ticks) for ticks in fields[11 : 15 if name == "java" else 13]) / _TICKS
    return _Process(pid, int(fields[1]), name, int(fields[19]), cpu)


class WorkerMemory:
    """Watches, while it is entered, the resident memory of each Python worker.

    `peak` is the most that any one had, in bytes; pages shared with the process it was forked from
    count too.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pids: list[int] = []
        turns = 0
        while not self._over.wait(0.1):
            if turns % 10 == 0:
                mine = os.getpid()
                pids = [p.pid for p in _tree() if p.name != "java" and p.pid != mine]
            turns += 1
            self.peak = max([self.peak, *map(_resident, pids)])


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
