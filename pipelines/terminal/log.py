"""What a run says as lines of JSON, for programs that collect logs."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

Level = Literal["info", "warning", "error"]


def json_line(value: Any) -> str:
    """`value` as JSON on one line, however lines are split, without characters that a terminal
    would obey: those that are not printable are spelled by their number."""
    text = orjson.dumps(value).decode()
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


class JsonLog:
    """Writes one JSON object a line to standard error: `time` (UTC), `level`, `message`, then what
    the line is about (`run`, `source`, `target`, `batch`), if that is known."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}

    def line(self, level: Level, message: str, **about: Any) -> None:
        """Write one line; values that are None are left out."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {name: value for name, value in about.items() if value is not None}
        record = {"time": time, "level": level, "message": message, **self.about, **known}
        # Whoever reads both streams of one terminal gets them in order.
        sys.stdout.flush()
        sys.stderr.write(json_line(record) + "\n")
        sys.stderr.flush()
