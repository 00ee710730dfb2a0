"""Which deliveries are one change (semantics.md, 16 and 76): the only definition, in Python and
SQL.

By source, these are the deliveries at one place in the source's log (epoch, s1…s5) and half, at
which the same happened: same op, key, images and columns that could not be supplied. If a message
has several changes of one place, their numbers tell them apart too. Everything else in a message
does not count, since a producer that sends a change again stamps it with another time. By arrival,
they are the deliveries of one place at the transport, in one epoch; two equal messages there cannot
be told from a change that was made twice.

If a table is ordered by columns of its rows, their numbers stand before the eleven of `pos`; so
everything here counts from the end.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

import msgspec
import xxhash

from ingest.events import Event
from ingest.position import EPOCH, HALF, SOURCE_PART, STREAM, Pos, transport_part
from ingest.wire.contract import Message

_CANONICAL = msgspec.json.Encoder(order="deterministic")


def change_hash(event: Event, message: Message, *, by_arrival: bool, row: int = 0) -> int:
    """The signed xxh64 of what happened: equal for equal changes, whatever else their messages say,
    and in whatever order they name the columns. `row` is the event's in its message.

    If neither a key nor the source's order tells changes apart, each delivery is a change (66); by
    arrival its place tells that.
    """
    what: tuple[object, ...] = event.op, event.key, event.before, event.after, event.unavailable
    if by_arrival:
        return signed(xxhash.xxh64_intdigest(_CANONICAL.encode(what)))
    number = row if event.number is None else event.number
    if event.crowded and not event.key_columns and event.op != "truncate":
        what = *what, message.topic, message.partition, message.offset
        number = row
    if number:
        what = *what, number
    return signed(xxhash.xxh64_intdigest(_CANONICAL.encode(what)))


def change_hashes(changes: Iterable[tuple[object, ...]]) -> list[int]:
    """The same for many changes that a key or the order tells apart. Each is given as op, key,
    before, after and unavailable; rows are anything that is written as their JSON object with the
    names in order."""
    return digests(map(_CANONICAL.encode, changes))


def digests(texts: Iterable[bytes]) -> list[int]:
    """The signed xxh64 of each text."""
    numbers = array("q", b"".join(map(xxhash.xxh64_digest, texts)))
    if sys.byteorder == "little":
        # a digest is a number, its highest byte first
        numbers.byteswap()
    return numbers.tolist()


def bytes_hash(value: bytes | None) -> int:
    """The signed xxh64 of a message's bytes."""
    return signed(xxhash.xxh64_intdigest(value or b""))


def signed(number: int) -> int:
    """64 bits as Spark's bigint has them."""
    return number - 2**64 if number >= 2**63 else number


def identity(pos: Pos, *, table: str, digest: int | None, by_arrival: bool) -> tuple[object, ...]:
    """What the deliveries of one change have in common; `digest` is its `change_hash`."""
    if by_arrival:
        return (table, pos[EPOCH], pos[STREAM:])
    return (table, pos[EPOCH:SOURCE_PART], pos[HALF], digest)


def identity_sql(by_arrival: bool, digest: str = "value_hash") -> str:
    """SQL of `identity` for silver rows of one source table, as an array of numbers."""
    if by_arrival:
        return f"concat(slice(pos, {EPOCH}, 1), {transport_part('pos')})"
    place = f"slice(pos, {EPOCH}, {STREAM - EPOCH})"
    return f"concat({place}, slice(pos, {HALF}, 1), array({digest}))"
