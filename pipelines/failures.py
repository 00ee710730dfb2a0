"""What is said of an error that nobody foresaw."""

from __future__ import annotations

import os
import re
import traceback

from ingest.errors import IngestError

_NO_SPACE = "No space left on device"
_FULL = (
    "no space is left on a disk: that of the warehouse, of its checkpoints, or of temporary files;"
    " free some and run again: what was begun is finished then, nothing is lost or doubled"
)


def described(error: BaseException) -> str:
    """One sentence on an error; with INGEST_DEBUG also where it came from."""
    if full_disk(error):
        return _FULL
    if isinstance(error, IngestError):
        return str(error)
    if os.environ.get("INGEST_DEBUG"):
        traceback.print_exception(error)
    first = _gist(str(error).strip())
    hint = "" if os.environ.get("INGEST_DEBUG") else "; INGEST_DEBUG=1 shows where"
    return f"unexpected {type(error).__name__}: {first}{hint}"


def full_disk(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error, of Python's or of the JVM's."""
    while error is not None:
        if mentions(error, _NO_SPACE):
            return True
        error = error.__cause__
    return False


def mentions(error: BaseException, words: str) -> bool:
    """Whether an error says `words`, or an error of the JVM's below it does: what failed in a task
    that writes is the cause of another, which pyspark hands on as the JVM's own, and Spark Connect
    in its trace alone."""
    trace = getattr(error, "getStackTrace", None)
    return words in str(error) or (trace is not None and words in (trace() or ""))


def _gist(text: str) -> str:
    """The line of an error's text that says most: its first, or what a traceback in it raised."""
    lines = text.splitlines() or ["no more is known"]
    if "Traceback (most recent call last)" in text:
        raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
        return raised[-1] if raised else lines[-1]
    return lines[0]
