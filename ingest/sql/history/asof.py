"""A past moment, as users name it, and as SQL that is true for the events up to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ingest.position import LENGTH

_POS = msgspec.json.Decoder(list[int])


class Moment(NamedTuple):
    """A time (µs since 1970-01-01 UTC), or a position or the beginning of one; without either:
    now."""

    time: int | None = None
    pos: tuple[int, ...] | None = None

    @property
    def until(self) -> str:
        """SQL that is true for silver's rows up to here.

        Events that name no time count as long past; events whose position begins with the given
        numbers belong to the moment (semantics.md, 35).
        """
        if self.time is not None:
            return f"(event_time IS NULL OR event_time <= timestamp_micros({self.time}))"
        if self.pos is not None:
            numbers = ", ".join(f"{number}L" for number in self.pos)
            return f"(slice(pos, 1, {len(self.pos)}) <= array({numbers}))"
        return "true"

    def before(self, pos: tuple[int, ...], time: int | None) -> bool:
        """Whether this moment lacks some of what lies up to `pos`, the newest of it being from
        `time`."""
        if self.time is not None:
            return time is not None and self.time < time
        return self.pos is not None and self.pos < pos[: len(self.pos)]


def at_time(text: str) -> Moment:
    """The moment of an ISO-8601 date or time; one without a zone is in UTC.

    Raises ValueError with what was expected.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"expected a date or time like 2024-02-29T12:00:00Z, got `{text}`"
        ) from None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment(time=(since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def at_pos(text: str) -> Moment:
    """The moment of a position, a JSON array of one to eleven integers.

    Raises ValueError with what was expected.
    """
    try:
        found = _POS.decode(text)
    except (msgspec.MsgspecError, ValueError):
        found = []
    if not 1 <= len(found) <= LENGTH or any(abs(number) >= 2**63 for number in found):
        raise ValueError(
            f"expected one to {LENGTH} integers like [0, 1, 1700000000000], got `{text}`"
        )
    return Moment(pos=tuple(found))
