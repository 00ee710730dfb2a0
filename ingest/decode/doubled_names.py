"""A name that stands twice in a message's envelope with two values contradicts itself.

Parsers keep the last value without a word, so `"type":"INSERT",…,"type":"DELETE"` would be a delete
(semantics.md, 68). Every message is asked, and most answer by their length alone: one in which a
name stands twice is longer than what a parser keeps of it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values.jsontext import UNREADABLE, excerpt, lenient
from ingest.wire.contract import TopLevel

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SPACES = b" \t\r\n\xef\xbb\xbf"
_INSIDE = frozenset(("payload", "source", "transaction", "metadata", "meta", "_tidb", "ddl"))
"""Members of envelopes that are no rows, and hold members of the envelope themselves."""
_OF_ROWS = frozenset(("payload", "before", "after", "source", "op", "ddl", "data"))
"""One of these stands in an envelope; without any the top level is a row."""


class _Object(list[tuple[str, Any]]):
    """An object as its pairs, names that stand twice included; no list looks like it."""

    def __repr__(self) -> str:
        return f"object{super().__repr__()}"


class _Number(str):
    """A number's digits as they stand; no text looks like them."""

    def __repr__(self) -> str:
        return str(self)


def check_names(value: bytes, *, flat: bool, top: TopLevel | None = None) -> None:
    """Raises contradiction where a name of the envelope stands twice with different values.

    `flat`: the format has messages whose top level is a row, whose names are columns. `top`: the
    message's own, where it was read already. What is no JSON object raises nothing: its decoder
    says why.
    """
    if not value.startswith(b"{") and not value.lstrip(_SPACES).startswith(b"{"):
        return
    try:
        if _single(value, top):
            return
        compact = msgspec.json.format(value, indent=-1)
        if compact != value and _single(compact):
            return
    except UNREADABLE:
        # Broken, or what only a lenient reading takes.
        value = lenient(value)
    try:
        found = json.loads(value, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)
    except UNREADABLE:
        return
    _check(found, flat=flat)


def _single(text: bytes, top: TopLevel | None = None) -> bool:
    """Whether no name of the envelope stands twice: written again from its members, an object that
    has each name once and no white space is as long as before."""
    members = _MEMBERS.decode(text) if top is None else top
    if len(msgspec.json.encode(members)) != len(text):
        return False
    if _INSIDE.isdisjoint(members):
        return True
    for name in _INSIDE & members.keys():
        if (inner := bytes(members[name])).startswith(b"{") and not _single(inner):
            return False
    return True


def _check(found: _Object, *, flat: bool) -> None:
    """As `check_names`, of an object that was read with all its pairs."""
    if flat and _OF_ROWS.isdisjoint(name for name, _ in found):
        return
    seen: dict[str, Any] = {}
    for name, value in found:
        if name in seen and repr(seen[name]) != repr(value):
            raise DecodeError(
                Code.CONTRADICTION,
                f"expected one value for {name[:40]!r}, got "
                f"{excerpt(repr(seen[name]).encode(), 40)} and "
                f"{excerpt(repr(value).encode(), 40)}; nothing of the message is applied",
            )
        seen[name] = value
        if name in _INSIDE and isinstance(value, _Object):
            _check(value, flat=False)
