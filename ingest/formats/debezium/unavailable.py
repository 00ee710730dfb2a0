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

from ingest.formats.debezium.values import days

DEFAULT = "__debezium_unavailable_value"


class Placeholder:
    """All shapes of one placeholder; with the prefix `hex:` its bytes are given in hexadecimal.

    `texts`: the shapes that are text. `hexadecimal`: bytes come in hexadecimal
    (`binary.handling.mode=hex`).
    """

    def __init__(self, text: str = DEFAULT, *, hexadecimal: bool = False) -> None:
        data = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        text = data.decode("latin-1") if text.startswith("hex:") else text
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        named = str(uuid.UUID(bytes=bytes(digest), version=3))
        packed = base64.b64encode(data).decode()
        codes = list(data)
        self._lists: tuple[list[Any], ...] = ([text], [packed], [named], codes)
        # Avro's lists and maps are text by now; a map also where hstore.handling.mode is json.
        dates = [days(code, []) for code in codes]
        lists = tuple(msgspec.json.encode(shape).decode() for shape in (*self._lists, dates))
        maps = (msgspec.json.encode({text: text}).decode(), f'{{"{text}": "{text}"}}')
        self.texts = frozenset(
            (text, packed, packed.rstrip("="), base64.urlsafe_b64encode(data).decode())
            + (*lists, *maps)
            + ((data.hex(),) if hexadecimal else ())
        )
        self._map = {text: text}

    def columns(self, image: dict[str, Any]) -> list[str]:
        """The columns of `image` that hold the placeholder."""
        try:
            if self.texts.isdisjoint(image.values()):
                return []
        except TypeError:
            # Lists and maps have no hash.
            pass
        return [name for name, value in image.items() if self._is(value)]

    def _is(self, value: Any) -> bool:
        kind = value.__class__
        if kind is list:
            return value in self._lists
        if kind is dict:
            return bool(value == self._map)
        return value in self.texts
