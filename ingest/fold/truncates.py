"""The truncates of source tables, prepared so that many keys can be looked up.

A table that is emptied every hour has thousands of truncates in a year, and a key meets only a few
of them. A lookup here costs the same however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.fold.fold import Change, distinct
from ingest.position import SOURCE_PART, STREAM, Pos, own_stream

_Class = tuple[str, int | None]
"""A source table, and the only stream that a truncate reaches (17); None = all streams."""


class Truncates(NamedTuple):
    """`by_class`: the truncates of each table and stream, in order. `places`: their places in the
    source's log, by table; by arrival these say nothing."""

    by_class: Mapping[_Class, tuple[Sequence[Pos], Sequence[Change]]]
    places: Collection[tuple[str, Pos]]

    @classmethod
    def of(cls, truncates: Iterable[Change]) -> Truncates:
        """Those of these, each once."""
        found: dict[_Class, list[Change]] = {}
        for truncate in distinct(truncates):
            own = own_stream(truncate.pos, by_arrival=truncate.by_arrival)
            found.setdefault((truncate.table, own), []).append(truncate)
        return cls(
            {name: ([each.pos for each in some], some) for name, some in found.items()},
            {
                (each.table, each.pos[:SOURCE_PART])
                for some in found.values()
                for each in some
                if not each.by_arrival
            },
        )

    def void(self, change: Change) -> bool:
        """Whether a truncate of the change's source table lies above it."""
        return bool(self.next_after([change]))

    def stand_beside(self, change: Change) -> bool:
        """Whether a truncate of the change's source table stands at exactly its place in the
        source's log: then a copy of the change may stand on the other side of the truncate."""
        return (change.table, change.pos[:SOURCE_PART]) in self.places

    def next_after(self, changes: Iterable[Change]) -> list[Change]:
        """For each change the lowest truncates that reach it. Later truncates take nothing away of
        these changes, since it is gone by then."""
        found: dict[tuple[_Class, int], Change] = {}
        for change in changes:
            for name in ((change.table, None), (change.table, change.pos[STREAM])):
                positions, some = self.by_class.get(name, ((), ()))
                place = bisect_right(positions, change.pos)
                if place < len(positions):
                    found[name, place] = some[place]
        return list(found.values())
