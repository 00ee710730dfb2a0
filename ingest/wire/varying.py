"""What the changes of one table say besides their rows, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ingest.errors import DecodeError
from ingest.events import Event

Sent = TypeVar("Sent")


class Varying(NamedTuple):
    """The fields of Event in which changes differ, each with its value for each change. The
    `warnings` of a change that must be read by itself are None."""

    fields: dict[str, Sequence[Any]]
    warnings: Sequence[list[str] | None]

    def of(self, kept: Sequence[int]) -> dict[str, Sequence[Any]]:
        """The fields of some of the changes."""
        if len(kept) == len(self.warnings):
            return self.fields
        return {field: [values[at] for at in kept] for field, values in self.fields.items()}


def varying(fields: Mapping[str, Sequence[Any]], count: int) -> Varying:
    """The fields of `count` changes, without warnings so far; fields without any value are left
    out."""
    warnings: list[list[str]] = [[] for _ in range(count)]
    known = {field: values for field, values in fields.items() if values.count(None) < len(values)}
    return Varying({**known, "warnings": warnings}, warnings)


def varying_of_each(
    group: Sequence[Sent], event_of: Callable[[Sent], Event], fields: Sequence[str]
) -> Varying:
    """The fields of changes, each of which is asked for its event; `event_of` raises DecodeError
    for a change that must be read by itself."""
    events: list[Event | None] = []
    for sent in group:
        try:
            events.append(event_of(sent))
        except DecodeError:
            events.append(None)
    found: dict[str, Sequence[Any]] = {
        field: [None if event is None else getattr(event, field) for event in events]
        for field in (*fields, "warnings")
    }
    return Varying(found, found["warnings"])
