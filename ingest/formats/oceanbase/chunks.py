"""Records of OceanBase that are too large for one message: shards put together (semantics.md, 20).

Each shard carries a part of the bytes of both images; `total` is the number of shards and `index`
counts them, from 0 or from 1. A record's shards stand behind one another in their partition and
have the same table and transaction; their ids and positions differ, and the record gets those of
its last shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.oceanbase.record import Record, images

BUNDLE = b"\x89shards\n"
"""The beginning of a value that holds the shards of one record, each behind its size."""
_SIZE = 8


def bundled(parts: Iterable[bytes]) -> bytes:
    """The messages of a record's shards as one value, which the decoder puts together."""
    return BUNDLE + b"".join(len(part).to_bytes(_SIZE, "big") + part for part in parts)


def unbundled(value: bytes) -> list[bytes]:
    """The messages in a bundle; raises bad_avro if it is incomplete."""
    found: list[bytes] = []
    at = len(BUNDLE)
    while at < len(value):
        size = int.from_bytes(value[at : at + _SIZE], "big")
        at += _SIZE
        if at + size > len(value):
            raise DecodeError(Code.BAD_AVRO, f"expected {size} bytes of a shard at byte {at}")
        if value.startswith(BUNDLE, at):
            raise DecodeError(Code.BAD_AVRO, "expected shards in a bundle, got a bundle")
        found.append(value[at : at + size])
        at += size
    return found


def follows(shard: Record, before: Record) -> bool:
    """Whether a shard is the next one of the same record."""
    return (
        shard.shard == before.shard + 1
        and shard.id >= before.id
        and shard.shards == before.shards
        and shard.operation == before.operation
        and shard.transaction == before.transaction
        and shard.schema == before.schema
        and shard.table == before.table
    )


def begins(shard: Record) -> bool:
    """Whether a shard is the first of its record, whichever number that is."""
    return shard.shard == 0 or shard.shard == 1


def complete(parts: Sequence[Record]) -> bool:
    """Whether consecutive shards are all shards of their record."""
    return bool(parts) and begins(parts[0]) and len(parts) == parts[0].shards


def joined(parts: Sequence[Record]) -> Record:
    """The record made of its shards. Raises fragment_incomplete unless they are all there, in
    order."""
    follow = all(follows(b, a) for a, b in pairwise(parts))
    if not (complete(parts) and follow):
        raise _incomplete(parts)
    last = parts[-1]
    warnings = [code for part in parts for code in part.warnings]
    return last._replace(
        fields=next((part.fields for part in parts if part.fields is not None), None),
        primary=next((part.primary for part in parts if part.primary is not None), None),
        unique=next((part.unique for part in parts if part.unique is not None), None),
        before=images(b"".join(part.before_bytes for part in parts), warnings),
        after=images(b"".join(part.after_bytes for part in parts), warnings),
        shards=-1,
        shard=-1,
        before_bytes=b"",
        after_bytes=b"",
        warnings=warnings,
    )


def _incomplete(parts: Sequence[Record]) -> DecodeError:
    numbers = ", ".join(str(part.shard) for part in parts[:20])
    total = parts[0].shards if parts else 0
    return DecodeError(
        Code.FRAGMENT_INCOMPLETE,
        f"expected {total} shards of one record behind one another, got those of index "
        f"{numbers or 'none'}",
    )


def runs(records: Iterable[Record]) -> Iterator[Record]:
    """Records, with those that were split into shards put together; raises fragment_incomplete."""
    parts: list[Record] = []
    for record in records:
        if record.shards <= 1:
            if parts:
                raise _incomplete(parts)
            yield record
            continue
        parts.append(record)
        if complete(parts):
            yield joined(parts)
            parts = []
    if parts:
        yield joined(parts)
