"""The times of an envelope that come as text."""

from __future__ import annotations

from ingest import values

_MEMO_MOST = 65_536


class Clock:
    """Reads zone-less times in the source's zone; remembers them, they repeat."""

    def __init__(self, zone: str | None) -> None:
        self._zone = zone
        self._memo: dict[str, tuple[int | None, list[str]]] = {}

    def micros(self, text: str | None, warnings: list[str]) -> int | None:
        """Microseconds since the epoch; None where there is no time, or none that is known."""
        if not text:
            return None
        found = self._memo.get(text)
        if found is None:
            if len(self._memo) >= _MEMO_MOST:
                self._memo.clear()
            doubts: list[str] = []
            found = values.civil_micros(text, self._zone, doubts), doubts
            self._memo[text] = found
        warnings += found[1]
        return found[0]
