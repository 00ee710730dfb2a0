"""What Spark meets in a batch that its statistics did not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingest.sql.fold.typed_changes import SURPRISE
from pipelines.platform.failures import mentions


class Surprise(Exception):
    """A value that does not fit, a tie, or a NULL key: the batch has to be applied exactly. Nothing
    of it was written."""


@contextmanager
def surprises() -> Iterator[None]:
    """Raise Surprise in place of the error that `ingest.sql.fold.typed_changes` raises in Spark."""
    try:
        yield
    except Exception as error:
        if mentions(error, SURPRISE):
            raise Surprise from error
        raise
