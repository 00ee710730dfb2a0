"""Messages whose operation contradicts the rest of them: nothing of them is applied.

Rows in a truncate, a schema change, a heartbeat, a begin or a commit mean that either the rows or
the operation are not what they seem; which one, no message tells (semantics.md, 68).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError


def refuse_rows(word: str | None, *images: object) -> None:
    """Raises contradiction where one of `images` holds columns.

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


def has_columns(image: object) -> bool:
    """Whether an image, or one of a list, has a column; what is no object has none."""
    found: Any = image
    if isinstance(image, msgspec.Raw | bytes):
        text = bytes(image)
        if text[:1] not in (b"{", b"["):
            return False
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Too deep or broken: it is no empty image.
            return True
    if isinstance(found, list):
        return any(found)
    return bool(found) and not isinstance(found, str | int | float)
