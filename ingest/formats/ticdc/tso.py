"""Parts shared by TiCDC's protocols: TiDB's timestamps, rows too large to be sent as they are, and
what rows lack."""

from __future__ import annotations

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.wire.contract import Loss
from ingest.wire.scalars import Scalar, number_of

_LOGICAL_BITS = 18
_LZ4 = b"\x04\x22\x4d\x18"
VIRTUAL_COLUMNS = Loss("virtual generated columns", "TiCDC leaves them out of its rows")


def micros_of_tso(given: Scalar) -> int | None:
    """Microseconds since the epoch of a TiDB timestamp (TSO): its upper bits are milliseconds."""
    number = number_of(given)
    return (number >> _LOGICAL_BITS) * 1000 if number else None


def place_of(commit: int, op: str) -> tuple[int, int]:
    """The place of an event in TiDB's log: the commit of its transaction, in which the deletes come
    first. Two events of one key are an update that changes a unique key; TiCDC splits it, and its
    dispatchers may send the delete and the insert to different partitions."""
    return commit, int(op != "delete")


def refuse_compressed(data: bytes) -> None:
    """Raises unsupported for a message, or a part of one, that TiCDC itself compressed."""
    if data.startswith(_LZ4):
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected JSON, got what TiCDC compressed by lz4: set its "
            "large-message-handle-compression to none; the producer's compression may stay",
        )


def handle_key_only(op: str, place: str | None, keep: bool) -> None:
    """Raises unsupported if only the handle key was sent of a row that is needed whole.

    `place` is where TiCDC stored the row; a delete needs only its key.
    """
    if op != "delete" and not keep:
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected a whole row, got its handle key alone"
            + (f", the row being stored at {place}" if place else "")
            + "; raise TiCDC's max-message-bytes, or set option handle_key_only: keep",
        )
