"""`__light_type`: the pseudo-column in which DefaultExtendColumnType sends the column types."""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.oms.types import OmsTypes
from ingest.memo import Memo
from ingest.values.jsontext import UNREADABLE, excerpt, members
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.typed_rows import TypedRows

_NAME = "__light_type"
_TOKEN = b'"__light_type"'
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class LightTypes:
    """Takes the types off an image.

    The block stands last in an image and is the same for every row of a table, so it is cut off and
    looked up by its bytes. An image that has it elsewhere is taken apart member by member.
    """

    def __init__(self, options: FormatOptions) -> None:
        self._types = OmsTypes(options)
        self._blocks: Memo[bytes, dict[str, str] | None] = Memo(most=10_000)

    def split(self, raw: msgspec.Raw, table: TableName, family: str) -> tuple[bytes, TypedRows]:
        """The image without its types, and the columns that these describe.

        If `__light_type` is no object of `{"schemaType": …}`, it is a column like others.
        """
        text = bytes(raw)
        at = text.rfind(_TOKEN)
        if at < 0:
            return text, self._types.of(table, family=family, key=None, sent=dict)
        head = text[:at].rstrip()
        block = text[at:]
        sent = self._sent(block) if head.endswith(b",") else None
        if sent is not None:
            text = head[:-1] + b"}"
        else:
            try:
                parts = members(text)
            except UNREADABLE as error:
                raise DecodeError(
                    Code.BAD_JSON, f"expected a row image, {error}; got {excerpt(text)}"
                ) from None
            block = _TOKEN + b":" + bytes(parts.pop(_NAME, b"")) + b"}"
            sent = self._sent(block)
            if sent is None:
                return text, self._types.of(table, family=family, key=None, sent=dict)
            text = msgspec.json.encode(parts)
        types = sent
        return text, self._types.of(table, family=family, key=block, sent=lambda: types)

    def _sent(self, block: bytes) -> dict[str, str] | None:
        """Column -> type name of `"__light_type":{…}}`; None if it is no such block."""
        try:
            return self._blocks[block]
        except KeyError:
            pass
        found = self._blocks[block] = _read(b"{" + block)
        return found


def _read(text: bytes) -> dict[str, str] | None:
    try:
        found = _OBJECT.decode(text)
    except (ValueError, RecursionError):
        return None
    types = found.get(_NAME)
    if len(found) > 1:
        return None
    if not types and types in ({}, None):
        return {}
    if not isinstance(types, dict):
        return None
    sent: dict[str, str] = {}
    for name, described in types.items():
        if not isinstance(described, dict) or "schemaType" not in described:
            return None
        if isinstance(described["schemaType"], str):
            sent[name] = described["schemaType"]
    return sent
