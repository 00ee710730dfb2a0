"""What is said about an error that nobody foresaw."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress

from ingest.errors import IngestError, SparkEnded
from pipelines.platform.java import jvm_process

_NO_SPACE = "No space left on device"
_CAUSED = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+(?:: .*)?)$", re.MULTILINE)
_ENDING = 0.5
"""Seconds that a JVM has to end which does not answer any more."""
_FULL = (
    "no space is left on a disk: that of the warehouse, of its checkpoints, or of temporary files;"
    " free some and run again: what was begun is finished then, nothing is lost or doubled"
)


def described(error: BaseException) -> str:
    """One sentence on an error; with INGEST_DEBUG also where it came from."""
    debug = os.environ.get("INGEST_DEBUG")
    if debug:
        traceback.print_exception(error)
    if full_disk(error):
        return _FULL
    if isinstance(error, IngestError):
        return str(error)
    if (ended := _spark_ended(error)) is not None:
        return ended
    hint = "" if debug else "; INGEST_DEBUG=1 shows where"
    return f"unexpected {type(error).__name__}: {gist(error)}{hint}{log_hint(error)}"


def check_spark(error: Exception) -> None:
    """Raises SparkEnded if an error comes from a JVM that is gone: whatever is tried next would
    fail as well."""
    if isinstance(error, SparkEnded):
        raise error
    if (ended := _spark_ended(error)) is not None:
        raise SparkEnded(ended) from error


def check_jvm() -> None:
    """The same of a JVM that nobody has asked anything since."""
    if (ended := _jvm_ended(within=0)) is not None:
        raise SparkEnded(_gone(ended))


def described_of(what: str, error: BaseException) -> str:
    """`WHAT: sentence`, for an error that happened to `what`. Many errors name it themselves, some
    without a colon behind it."""
    return f"{what}: {described(error).removeprefix(f'{what}: ').removeprefix(f'{what} ')}"


def gist(error: BaseException) -> str:
    """The first thing that an error says, and its root in the JVM."""
    first = _gist(str(error).strip())
    root = cause(error)
    return first if root is None or root in first else f"{first} ({root})"


def cause(error: BaseException | None) -> str | None:
    """The last `Caused by` of the JVM in an error, its class without packages; None if there is
    none."""
    found = None
    while error is not None:
        for text in _traces(error):
            causes = _CAUSED.findall(text)
            found = causes[-1] if causes else found
        error = error.__cause__
    return found


def log_hint(error: BaseException | None = None) -> str:
    """Where Spark's log is, for errors from the JVM that this process started."""
    session = sys.modules.get("pipelines.platform.session")
    log = getattr(session, "LOG", None)
    from_jvm = error is None or any("\tat " in text for text in _traces(error))
    return f"; Spark's log is {log}" if log is not None and from_jvm else ""


def _spark_ended(error: BaseException) -> str | None:
    """The sentence on a JVM that is gone, if an error comes from that."""
    if not _of_connection(error) or (ended := _jvm_ended(within=_ENDING)) is None:
        return None
    return _gone(ended)


def _gone(ended: str) -> str:
    return (
        f"Spark's JVM {ended} and everything else failed with it{log_hint()}; run again: "
        "what was begun is finished then, nothing is lost or doubled"
    )


def _jvm_ended(*, within: float) -> str | None:
    """How the JVM that this process started came to its end, or does so within these seconds; None
    while it runs, and if there is none."""
    process = jvm_process()
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        process.wait(within)
    code = process.poll()
    if code is None:
        return None
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL), as a machine short of memory does it,"
    if code < 0:
        return f"was ended by a signal ({signal.Signals(-code).name}),"
    return f"ended by itself (exit code {code}),"


def _of_connection(error: BaseException) -> bool:
    """Whether an error may be that nobody answers any more."""
    lost = isinstance(error, ConnectionError | EOFError)
    return lost or type(error).__module__.startswith("py4j.")


def _traces(error: BaseException) -> Iterator[str]:
    yield str(error)
    # Of pyspark's own: as it was captured, and as Spark Connect sends it.
    yield getattr(error, "_stackTrace", None) or ""
    asked = getattr(error, "getStackTrace", None)
    yield (asked() if asked is not None else None) or ""


def full_disk(error: BaseException | None) -> bool:
    """Whether the cause of an error, of Python's or of the JVM's, is a full disk."""
    while error is not None:
        if mentions(error, _NO_SPACE):
            return True
        error = error.__cause__
    return False


def mentions(error: BaseException, words: str) -> bool:
    """Whether an error, or an error of the JVM below it, says `words`. What failed in a task that
    writes is the cause of another error, which pyspark hands on as that of the JVM, and Spark
    Connect only in its trace."""
    return any(words in text for text in _traces(error))


def _gist(text: str) -> str:
    """The line of an error's text that says most: its first line, or what a traceback in it
    raised."""
    lines = text.splitlines() or ["no more is known"]
    if "Traceback (most recent call last)" in text:
        raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
        return raised[-1] if raised else lines[-1]
    return lines[0]
