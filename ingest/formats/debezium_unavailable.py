"""Columns whose value the connector could not supply, told by its placeholder in any of its shapes.

An unchanged TOAST column or LOB comes as the placeholder text, as its base64 where bytes are
declared, as a list with the text, its base64, its ASCII codes or the UUID made of it, or as a map
from the text to itself. Such a column is taken out of the image: it is never NULL, never a value.
Source: Debezium `unavailable.value.placeholder`, UnchangedToastedPlaceholder (3.6).
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

import msgspec

DEFAULT = "__debezium_unavailable_value"


class Placeholder:
    """All shapes of one placeholder; with the prefix `hex:` its bytes are given in hexadecimal.

    `hexadecimal`: bytes come in hexadecimal (`binary.handling.mode=hex`).
    """

    def __init__(self, text: str = DEFAULT, *, hexadecimal: bool = False) -> None:
        self._hexadecimal = hexadecimal
        data = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        text = data.decode("latin-1") if text.startswith("hex:") else text
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        named = str(uuid.UUID(bytes=bytes(digest), version=3))
        packed = base64.b64encode(data).decode()
        codes = list(data)
        self._scalars = frozenset(
            (text, packed, packed.rstrip("="), base64.urlsafe_b64encode(data).decode(), data.hex())
        )
        self._lists: tuple[list[Any], ...] = ([text], [packed], [named], codes)
        self._map = {text: text}
        start = [str(code) for code in codes[:4]]
        self._needles = (msgspec.json.encode(text)[1:-1], packed.rstrip("=").encode())
        self._hex = data.hex().encode()
        self._in_lists = (
            named.encode(),
            ("[" + ",".join(start)).encode(),
            ("[" + ", ".join(start)).encode(),
        )

    def columns(self, image: dict[str, Any], raw: bytes) -> list[str]:
        """The columns of `image` that hold the placeholder; `raw` is the image's own text."""
        text, packed = self._needles
        found = text in raw or packed in raw
        if not found and b"[" in raw:
            found = any(needle in raw for needle in self._in_lists)
        if not found and self._hexadecimal:
            found = self._hex in raw
        return [name for name, value in image.items() if self._is(value)] if found else []

    def _is(self, value: Any) -> bool:
        kind = value.__class__
        if kind is list:
            return value in self._lists
        if kind is dict:
            return bool(value == self._map)
        if kind is not str:
            return False
        if value in self._scalars:
            return True
        if value[:1] != "{" or value[-1:] != "}":
            return False
        try:
            return bool(_MAP.decode(value) == self._map)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return False


_MAP = msgspec.json.Decoder(dict[str, Any])
