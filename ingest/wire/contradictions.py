"""Messages whose operation contradicts the rest of the message: nothing of them is applied.

If a truncate, a schema change, a heartbeat, a begin or a commit has rows, then either the rows or
the operation are not what they seem, and no message tells which (semantics.md, 68).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values.jsontext import UNREADABLE, decoder, parse


def refuse_rows(word: str | None, *images: object) -> None:
    """Raises contradiction if one of `images` has columns.

    `word`: the message's word for what happened. An image is JSON as sent, of one row or of a list
    of rows, or what was read of it.
    """
    for image in images:
        if image and has_columns(image):
            raise DecodeError(
                Code.CONTRADICTION,
                f"expected no row in a message of {str(word)[:40]!r}, got one; the message "
                "contradicts itself, so nothing of it is applied",
            )


def refuse_after(op: str, image: object) -> None:
    """Raises image_count if a delete brings a row besides the one that it deletes.

    `image`: JSON as sent, or what was read of it.
    """
    if image and has_columns(image):
        raise DecodeError(Code.IMAGE_COUNT, f"expected no row after a {op}, got one with columns")


class _Sides(msgspec.Struct, gc=False):
    before: dict[str, msgspec.Raw] | None = None
    after: dict[str, msgspec.Raw] | None = None


class _Record(msgspec.Struct, gc=False):
    payload: _Sides


_RECORD = decoder(_Record)


def refuse_sides(word: str | None, value: bytes) -> None:
    """As `refuse_rows`, for `payload.before` and `payload.after` of a message, whatever members
    they have."""
    payload = parse(value, _RECORD.decode, []).payload
    for side in (payload.before, payload.after):
        refuse_rows(word, *(side or {}).values())


_NOTHING = (b"", b"null", b'""', b"0", b"false")


def has_columns(image: object) -> bool:
    """Whether an image, or one of a list of images, has a column. If it is JSON as sent, any value
    except an empty one may hold a row."""
    found: Any = image
    if isinstance(image, msgspec.Raw | bytes):
        text = bytes(image)
        if text[:1] not in (b"{", b"["):
            return text not in _NOTHING
        try:
            found = msgspec.json.decode(text)
        except UNREADABLE:
            # Too deep or broken: it is no empty image.
            return True
    if isinstance(found, list):
        return any(found)
    return bool(found) and not isinstance(found, str | int | float)
