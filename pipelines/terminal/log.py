"""What a run says as lines of JSON, for programs that collect logs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

Level = Literal["info", "warning", "error"]


class JsonLog:
    """Writes a JSON object a line to standard error: `time` (UTC), `level`, `message`, then what
    the line is about (`run`, `source`, `target`, `batch`), as far as that is known."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}

    def line(self, level: Level, message: str, **about: Any) -> None:
        """One line; what is None is left out."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {name: value for name, value in about.items() if value is not None}
        record = {"time": time, "level": level, "message": message, **self.about, **known}
        # Who reads both streams of one terminal has them in order.
        sys.stdout.flush()
        sys.stderr.write(orjson.dumps(record).decode() + "\n")
        sys.stderr.flush()
