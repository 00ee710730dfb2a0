"""Durations, which YAML writes as `15 minutes`, and `merge_every:` of a tables file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from ingest.config.mistakes import shown

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_TIME = re.compile(r"([1-9]\d{0,5}) (second|minute|hour|day)s?")
_EVENTS = re.compile(r"([1-9]\d{0,8}) events?")
_EITHER = rf"(?:{_TIME.pattern}|{_EVENTS.pattern})".replace(r"\d", "[0-9]")


def _seconds(text: str) -> int | None:
    """`15 minutes` as a number of seconds; None if the text is no duration."""
    found = _TIME.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found is not None else None


def _duration(value: Any) -> Any:
    if value is None:
        return None
    seconds = _seconds(value) if isinstance(value, str) else None
    if seconds is None:
        wanted = "expected a time like `15 minutes`, `6 hours` or `2 days`"
        raise ValueError(f"{wanted}, got {shown(value)}")
    return seconds


Duration = Annotated[int | None, BeforeValidator(_duration)]
"""Seconds; in the YAML a number of seconds, minutes, hours or days, with its unit."""


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """How often a target is merged: once `seconds` have passed since its last merge, or once
    `events` changes wait, whichever comes first. None: that is no reason to merge it."""

    seconds: int | None = None
    events: int | None = None

    def __str__(self) -> str:
        """As the YAML has it."""
        parts = []
        if self.seconds is not None:
            unit = max((u for u in _UNITS if self.seconds % _UNITS[u] == 0), key=_UNITS.__getitem__)
            parts.append(_counted(self.seconds // _UNITS[unit], unit))
        if self.events is not None:
            parts.append(_counted(self.events, "event"))
        return " | ".join(parts)

    def due_at(self, merged_at: int | None) -> int | None:
        """When a target becomes due that was last merged at `merged_at`, both in microseconds since
        1970 UTC; None if time alone does not make it due.

        A target that was never merged is due at once.
        """
        if merged_at is None:
            return 0
        return None if self.seconds is None else merged_at + self.seconds * 1_000_000


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _cadence(value: Any) -> Any:
    if value is None:
        return None
    parts = [part.strip() for part in value.split("|")] if isinstance(value, str) else [""]
    seconds = [found for part in parts if (found := _seconds(part)) is not None]
    events = [int(count[1]) for part in parts if (count := _EVENTS.fullmatch(part)) is not None]
    if len(seconds) + len(events) < len(parts) or len(seconds) > 1 or len(events) > 1:
        raise ValueError(
            "expected a time like `5 minutes`, a number like `10000 events`, or both as "
            f"`5 minutes | 10000 events`, got {shown(value)}"
        )
    return Cadence(seconds=seconds[0] if seconds else None, events=events[0] if events else None)


MergeEvery = Annotated[
    Cadence | None,
    PlainValidator(_cadence),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_EITHER}( *\\| *{_EITHER})?$"},
                {"type": "null"},
            ]
        }
    ),
]
"""A Cadence; in the YAML a duration, a number of events, or both with `|` between them."""
