"""What "later" means: `pos`, eleven numbers compared from the left (semantics.md, 11 to 17).

`[epoch, 0 snapshot | 1 stream, s1, s2, s3, s4, s5, stream, offset, row, half]`

s1…s5 are the source's own log position (`source` order) or the arrival at the transport
(`arrival` order: the Kafka record's timestamp, for files their ordinal). `stream`, `offset` and
`row` break ties, so the order is total and deterministic; `half` is 0 for the delete half of a key
change, OWN_PARTITION for a truncate that reaches its own partition alone, 1 for all else. The same
comparison serves in Python (tuples), in Spark (`array<bigint>` under `<`) and in a MERGE
condition: there is no other comparator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import xxhash

EPOCH, PHASE, S1, STREAM, OFFSET, ROW, HALF = -11, -10, -9, -4, -3, -2, -1
"""Counted from the end, since in a table that is ordered by columns of its rows (`sequence_by`),
the numbers of these columns stand before them."""
SOURCE_PART = -4
"""pos[:-4] is the source's own part: if it is equal, two changes are tied, and only the transport
tells them apart."""
LENGTH = 11
SNAPSHOT, STREAMED = 0, 1
OWN_PARTITION = 2
"""The `half` of a truncate of which, by arrival, every partition gets a copy; each copy reaches the
rows of its own partition (semantics.md, 65)."""
_ZEROS = ((), (0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0, 0))

Pos = tuple[int, ...]
TOP: Pos = (2**63 - 1,) * LENGTH
"""Above every pos."""


def position(
    *,
    epoch: int,
    snapshot: bool,
    order: tuple[int, ...],
    stream: int,
    offset: int,
    row: int,
    half: int,
) -> Pos:
    """The pos of one event; `order` has up to five numbers, missing ones are 0."""
    return (
        epoch,
        SNAPSHOT if snapshot else STREAMED,
        *order,
        *_ZEROS[5 - len(order)],
        stream,
        offset,
        row,
        half,
    )


def delete_half(pos: Pos) -> Pos:
    """The position of the delete half of a key change at `pos`."""
    return (*pos[:HALF], 0)


def position_columns(
    *,
    epochs: Sequence[int],
    snapshots: Sequence[bool],
    orders: Sequence[tuple[int, ...]],
    streams: Sequence[int],
    offsets: Sequence[int],
    halves: Sequence[int],
) -> list[Sequence[int] | int]:
    """`position` of many events, each the first of its message: LENGTH columns of numbers; a single
    number stands for a column in which all are the same."""
    sizes = set(map(len, orders))
    if len(sizes) > 1:
        orders = [(*order, *_ZEROS[max(sizes) - len(order)]) for order in orders]
    numbers: list[Sequence[int] | int] = [*zip(*orders, strict=True)]
    phases: Sequence[int] | int = STREAMED
    if any(snapshots):
        phases = [SNAPSHOT if snapshot else STREAMED for snapshot in snapshots]
    return [epochs, phases, *numbers, *_ZEROS[5 - max(sizes)], streams, offsets, 0, halves]


@lru_cache(maxsize=65_536)
def stream_number(topic: str, partition: int) -> int:
    """The number of a Kafka partition: 40 bits of the topic's hash, then the partition."""
    return (xxhash.xxh64_intdigest(topic.encode()) & (2**40 - 1)) << 20 | partition


def arrival(*, timestamp: int | None, ordinal: int | None) -> tuple[int, ...]:
    """s1 of arrival order: a file's ordinal, else the record's timestamp in milliseconds.

    A broker that keeps no timestamps sends -1; then only the order within a partition is left.
    """
    if ordinal is not None:
        return (ordinal,)
    return (max(timestamp or 0, 0),)


def own_stream(truncate: Pos, *, by_arrival: bool) -> int | None:
    """The one stream that a truncate reaches; None if it reaches everything below it."""
    return truncate[STREAM] if by_arrival and truncate[HALF] == OWN_PARTITION else None


def reaches(truncate: Pos, pos: Pos, *, by_arrival: bool) -> bool:
    """Whether a truncate reaches the change at `pos`."""
    return pos < truncate and own_stream(truncate, by_arrival=by_arrival) in (None, pos[STREAM])


def reached(truncate: Pos, pos: str, *, by_arrival: bool) -> str:
    """SQL of `reaches`; `pos` is SQL."""
    own = own_stream(truncate, by_arrival=by_arrival)
    same = "" if own is None else f" AND element_at({pos}, {STREAM}) = {own}"
    return f"{pos} < {pos_literal(truncate)}{same}"


def may_follow(later: Pos, pos: Pos, *, by_arrival: bool) -> bool:
    """Whether the change at `later` may come after the one at `pos`; at one place of the source's
    log, the transport does not tell which came first."""
    return later > pos if by_arrival else later[:SOURCE_PART] >= pos[:SOURCE_PART]


def may_follow_sql(later: str, pos: str, *, by_arrival: bool) -> str:
    """SQL of `may_follow`; both positions are SQL."""
    return f"{later} > {pos}" if by_arrival else f"{source_part(later)} >= {source_part(pos)}"


def tied(pos: Pos, other: Pos, *, by_arrival: bool) -> bool:
    """Whether only the transport tells which of two changes came first."""
    return not by_arrival and pos[:SOURCE_PART] == other[:SOURCE_PART]


def highest(positions: Iterable[Pos | None]) -> Pos | None:
    """The highest of the positions that are not None; None if there is none."""
    return max((pos for pos in positions if pos is not None), default=None)


def lowest(positions: Iterable[Pos | None]) -> Pos | None:
    """The lowest of the positions that are not None; None if there is none."""
    return min((pos for pos in positions if pos is not None), default=None)


def outermost(truncates: Iterable[Pos], *, by_arrival: bool) -> list[Pos]:
    """The truncates that void whatever the others void: the last one and, by arrival, the last of
    each stream that has its own."""
    newest = {
        own_stream(truncate, by_arrival=by_arrival): truncate for truncate in sorted(truncates)
    }
    return sorted(newest.values())


def lowest_copies(truncates: Iterable[Pos]) -> set[Pos]:
    """The lowest of the deliveries of each truncate, which by the source's order have one place
    (semantics.md, 16)."""
    lowest: dict[tuple[Pos, Pos], Pos] = {}
    for pos in sorted(truncates):
        lowest.setdefault((pos[:SOURCE_PART], pos[ROW:]), pos)
    return {*lowest.values()}


def source_part(pos: str) -> str:
    """SQL of the source's own part of a pos, `pos[:SOURCE_PART]`."""
    return f"slice({pos}, 1, size({pos}) + {SOURCE_PART})"


def transport_part(pos: str) -> str:
    """SQL of the numbers behind the source's part: stream, offset, row, half."""
    return f"slice({pos}, {STREAM}, {-STREAM})"


def message_of(pos: str) -> str:
    """SQL of the numbers of a pos that tell messages apart: stream and offset."""
    return f"slice({pos}, {STREAM}, {ROW - STREAM})"


def in_sequence(pos: Pos) -> bool:
    """Whether columns of the table order its rows, so that their numbers stand before the pos."""
    return len(pos) > LENGTH


def in_log(pos: str) -> str:
    """SQL of a pos without the numbers of `sequence_by`: where the change stands in the log."""
    return f"slice({pos}, {EPOCH}, {LENGTH})"


def pos_literal(pos: Pos) -> str:
    """SQL of a pos."""
    return f"array({', '.join(f'{number}L' for number in pos)})"
