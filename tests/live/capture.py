"""What a connector sends, written down as `kcat -J` prints a topic: files that never change."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MOST = 2_000  # records of a file
OPEN_FOR = 1.0  # seconds that a file is written to


class Capture:
    """Files of records under `landing`, each there only once it is whole.

    Offsets count from 0 within each topic. Several threads may write.
    """

    def __init__(self, landing: Path) -> None:
        self._landing = landing
        self._offsets: Counter[str] = Counter()
        self._lines: list[str] = []
        self._files = 0
        self._opened = time.monotonic()
        self._lock = threading.Lock()

    def write(
        self,
        topic: str,
        key: bytes | None,
        payload: bytes | None,
        *,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Write down one record."""
        record: dict[str, Any] = {"topic": topic, "partition": 0, "ts": int(time.time() * 1000)}
        if headers:
            record["headers"] = [word for header in headers for word in header]
        record |= _field("key", key) | _field("payload", payload)
        with self._lock:
            record["offset"] = self._offsets[topic]
            self._offsets[topic] += 1
            self._lines.append(json.dumps(record, ensure_ascii=False))
            if len(self._lines) >= MOST or time.monotonic() - self._opened > OPEN_FOR:
                self._close()

    def close(self) -> None:
        """Let what was written be seen."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._lines:
            self._files += 1
            path = self._landing / f"{self._files:05d}.jsonl"
            part = path.with_suffix(".part")
            part.write_text("".join(f"{line}\n" for line in self._lines), encoding="utf-8")
            part.rename(path)
        self._lines, self._opened = [], time.monotonic()


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A member of a record; bytes that are no text stand there in hexadecimal."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}
