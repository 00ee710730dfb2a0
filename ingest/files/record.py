"""One message of a file, or the raw bytes of what could not be cut, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingest.codes import Code
from ingest.files.compression import Damage

ERROR_HEADER = "ingest.error"
"""Its value is `bad_framing: ` or `too_large: ` and the reason, UTF-8."""
FILE_HEADER = "ingest.file"
"""On the records of a captured topic, whose coordinates may be those of the topic: the ordinal and
the path of the file, like `3 landing/a.jsonl`."""
GAP_HEADER = "ingest.gap"
"""On a record without a value that stands for messages which were gone before they were read. Its
value is the first and the last of their offsets, like `12-40`."""
SCHEMA_HEADER = "avro.schema"
"""On a datum cut out of an Avro container, under the name it has there: its writer's schema."""
_CODES = {code.value: code for code in (Code.BAD_FRAMING, Code.TOO_LARGE)}


class Record(NamedTuple):
    """One message of a file. If `topic`, `partition` and `offset` are all None, those of the file
    hold.

    `timestamp` is in milliseconds since 1970-01-01 UTC.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None


def file_header(ordinal: int, path: str) -> tuple[str, bytes]:
    """The last header of a captured record: where it stands, whatever its sender wrote."""
    return FILE_HEADER, f"{ordinal} {path}".encode()


def in_file(record: Record, ordinal: int, path: str) -> Record:
    """A captured record with the header that says where it stands."""
    return record._replace(headers=(*(record.headers or ()), file_header(ordinal, path)))


def framing_error(headers: Sequence[tuple[str, bytes | None]] | None) -> Damage | None:
    """Why a record is broken; None if it is not."""
    for name, value in headers or ():
        if name == ERROR_HEADER:
            code, _, text = (value or b"").decode().partition(": ")
            return Damage(text, _CODES.get(code, Code.BAD_FRAMING))
    return None


def gap(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """The offsets of the lost messages that a record stands for; None if it is a message."""
    for name, value in headers or ():
        if name == GAP_HEADER:
            return (value or b"").decode(errors="replace")
    return None


def broken(value: bytes, why: str | Damage) -> Record:
    """A record that could not be cut or unpacked."""
    damage = why if isinstance(why, Damage) else Damage(why)
    reason = f"{damage.code.value}: {damage.text}"
    return Record(value, headers=((ERROR_HEADER, reason.encode("utf-8", "replace")),))
