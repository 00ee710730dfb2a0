"""What is said of an error that nobody foresaw."""

from __future__ import annotations

import os
import traceback

from ingest.errors import IngestError


def described(error: BaseException) -> str:
    """One sentence on an error; with INGEST_DEBUG also where it came from."""
    if isinstance(error, IngestError):
        return str(error)
    if os.environ.get("INGEST_DEBUG"):
        traceback.print_exception(error)
    first = (str(error).strip().splitlines() or ["no more is known"])[0]
    hint = "" if os.environ.get("INGEST_DEBUG") else "; INGEST_DEBUG=1 shows where"
    return f"unexpected {type(error).__name__}: {first}{hint}"
