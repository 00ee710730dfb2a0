"""The truncates of a batch in its MERGE: which stored rows they remove, and which truncate removed
each row first. However many there are, the statement has one clause for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest import position
from ingest.position import STREAM, Pos, outermost, own_stream, pos_literal
from ingest.sql.quoting import sql_text


@dataclass(frozen=True, kw_only=True)
class MergedTruncates:
    """Truncates of the source table `label`. They remove its rows below them; by arrival a truncate
    may reach only its own stream (17). `times`: their positions -> when they happened (µs)."""

    label: str
    by_arrival: bool
    times: Mapping[Pos, int | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.times)

    @property
    def reached(self) -> str:
        """SQL that is true for a stored row `t` that one of them removes."""
        below = " OR ".join(
            f"({position.reached(pos, 't._pos', by_arrival=self.by_arrival)})"
            for pos in outermost(self.times, by_arrival=self.by_arrival)
        )
        return f"t._source_table = {sql_text(self.label)} AND ({below or 'false'})"

    @property
    def first(self) -> str:
        """SQL of the truncate that removed a stored row `t` first, struct<pos, stream, time>;
        `stream`: the only one that it reaches."""
        listed = ", ".join(self._struct(pos) for pos in sorted(self.times))
        own = f"x.stream IS NULL OR x.stream = element_at(t._pos, {STREAM})"
        return f"element_at(filter(array({listed}), x -> t._pos < x.pos AND ({own})), 1)"

    def _struct(self, pos: Pos) -> str:
        numbers = {
            "stream": own_stream(pos, by_arrival=self.by_arrival),
            "time": self.times[pos],
        }
        fields = ", ".join(
            f"CAST({'NULL' if number is None else number} AS bigint) AS {name}"
            for name, number in numbers.items()
        )
        return f"struct({pos_literal(pos)} AS pos, {fields})"
