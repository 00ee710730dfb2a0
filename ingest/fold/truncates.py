"""The truncates of source tables, made ready to be asked about one key after the other.

A table that is emptied every hour has thousands of them in a year, of which a key meets a few: what
is asked here costs the same however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.fold.fold import Change, distinct
from ingest.position import SOURCE_PART, STREAM, Pos, own_stream

_Class = tuple[str, int | None]
"""A source table, and the stream that a truncate alone reaches (17); None = all of it."""


class Truncates(NamedTuple):
    """`by_class`: in order, those of each table and stream. `places`: where they stand in the
    source's log, by table; by arrival that says nothing."""

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
        """Whether one of the change's source table lies above it."""
        return bool(self.next_after([change]))

    def stand_beside(self, change: Change) -> bool:
        """Whether one of the change's source table stands at its very place in the source's log: a
        copy of the change may stand on the other side of it."""
        return (change.table, change.pos[:SOURCE_PART]) in self.places

    def next_after(self, changes: Iterable[Change]) -> list[Change]:
        """Of each change the lowest that reach it: of what these changes come to, the others take
        nothing away, as it is gone by then."""
        found: dict[tuple[_Class, int], Change] = {}
        for change in changes:
            for name in ((change.table, None), (change.table, change.pos[STREAM])):
                positions, some = self.by_class.get(name, ((), ()))
                place = bisect_right(positions, change.pos)
                if place < len(positions):
                    found[name, place] = some[place]
        return list(found.values())
