"""The command, killed: `python -m tests.support.killing POINT WORD…` runs `ingest WORD…`.

The process is ended by a real SIGKILL, as a machine that fails ends it: no handler, no clean-up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

POINTS = ("registered", "appending", "appended", "decoded", "merged")
"""registered: files have their numbers, nothing is appended. appending: a task has read messages.
appended: bronze has them, its log does not say so. decoded: silver has the rows, its stream does
not say so. merged: the targets are changed, and the ledger says so, gold's progress does not."""
DECISIONS = ("decided", "altered")
"""decided: a schema change is approved, nothing is done. altered: the columns are changed, the rows
and the ledger are not."""
REPAIRS = ("rebuilt",)
"""rebuilt: the target is swapped in, gold's progress does not say so."""


def die(pid: int | None = None) -> None:
    """End a process, this one if none is named, at once."""
    os.kill(pid if pid is not None else os.getpid(), signal.SIGKILL)


def _then(act: Callable[..., Any], when: Callable[..., bool]) -> Callable[..., Any]:
    """`act`, and the end after it where `when` is true of its arguments."""

    def acting(*given: Any, **named: Any) -> Any:
        result = act(*given, **named)
        if when(*given):
            die()
        return result

    return acting


def arm(point: str) -> None:
    """Patch the product so that it ends at `point`."""
    from pipelines.bronze import files as bronze_files
    from pipelines.bronze.file_log import FileLog
    from pipelines.bronze.records import by_path
    from pipelines.gold import approvals
    from pipelines.gold import run as gold
    from pipelines.ledger import alter
    from pipelines.operations import rebuild
    from pipelines.platform.warehouse import Warehouse

    if point == "registered":
        FileLog.register = _then(FileLog.register, lambda *_: True)  # type: ignore[method-assign]
    elif point in ("appended", "decoded"):
        layer = "bronze" if point == "appended" else "silver"
        Warehouse.append = _then(  # type: ignore[method-assign]
            Warehouse.append, lambda _self, _frame, of, _table: of == layer
        )
    else:
        module, name, instead = {
            "appending": (bronze_files, "by_path", _killing(os.getpid(), by_path)),
            "merged": (gold, "record_progress", _end),
            "decided": (approvals, "complete", _end),
            "altered": (alter, "_restore", _end),
            "rebuilt": (rebuild, "record_progress", _end),
        }[point]
        setattr(module, name, instead)


def _end(*_: Any) -> None:
    die()


def _killing(driver: int, reading: Callable[..., Any]) -> Callable[..., Any]:
    """Ends the driver from within a task, after the first messages were handed on."""

    def by_path(*given: Any, **more: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
        run = reading(*given, **more)

        def killing(batches: Iterator[Any]) -> Iterator[Any]:
            for read in run(batches):
                yield read
                os.kill(driver, signal.SIGKILL)

        return killing

    return by_path


if __name__ == "__main__":
    from pipelines.cli.app import main

    arm(sys.argv[1])
    main(sys.argv[2:])
