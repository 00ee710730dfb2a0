"""What can go wrong, as one tree.

IngestError
├── ConfigError     the YAML or the command line is wrong; every mistake at once; exit code 2
├── PlatformError   the machine is not ready (Java, broker, path, warehouse); exit code 2
├── DecodeError     one message cannot be decoded; becomes a reject row, never stops a stream
├── SourceError     one source cannot be read now; it is named, the others go on
├── TableError      one gold table cannot go on; it is parked and named, the others go on
├── SparkEnded      Spark's JVM is gone, and everything with it; exit code 1
├── LeaseHeld       another run has the lease that the work needs; exit code 75
└── LeaseLost       another run has taken over the lease of work that was under way
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingest.codes import Code

TRY_AGAIN = 75
"""The exit code where another run held what this one needed: EX_TEMPFAIL of BSD's sysexits.h."""


class IngestError(Exception):
    """Anything this product refuses to do, in one sentence that says what to do about it."""


class Mistake(NamedTuple):
    """One thing wrong in the configuration. `line` counts from 1; None if there is no line."""

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        return f"{where}: {self.text}"


class ConfigError(IngestError):
    """The configuration cannot be used; holds every mistake found, in file and line order."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


class PlatformError(IngestError):
    """The surroundings do not allow the work: what was looked for, what was found, the way out."""


class DecodeError(IngestError):
    """One message, or one value of it, cannot be decoded without guessing."""

    def __init__(self, code: Code, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code.value}: {text}")


class TableError(IngestError):
    """One gold table cannot be brought forward; says why and what would let it go on."""


class SourceError(IngestError):
    """One source cannot be read now; it is named, the other sources go on."""


class SparkEnded(IngestError):
    """Spark's JVM is gone, and nothing can be done any more; says how it ended."""


class LeaseHeld(IngestError):
    """Another run works on the same tables; says which, where and since when."""


class LeaseLost(IngestError):
    """Another run took over the lease of this one's work, which commits nothing more."""
