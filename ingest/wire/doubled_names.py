"""A message whose envelope has a name twice, with two values, contradicts itself.

Parsers silently keep the last value, so `"type":"INSERT",…,"type":"DELETE"` would be a delete
(semantics.md, 68). Every message is checked, and for most of them the length is proof enough: a
message in which a name stands twice is longer than what a parser keeps of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.memo import Memo
from ingest.values.jsontext import UNREADABLE, begins_object, compacted, lenient
from ingest.wire.contract import TopLevel

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_OF_ROWS = frozenset(("payload", "before", "after", "source", "op", "ddl", "data"))
"""Every envelope has at least one of these names; without any of them the top level is a row."""
_REPEATED = "schema"
"""The member that is the same in most messages of a table, and as large as the rest of them."""
_SHOWN = 40
"""How many characters of a value an error shows."""


class _Part(NamedTuple):
    """An object of an envelope, or each object of a list, and which of its members are such objects
    too.

    `sound`: blocks that were found to be without fault, one for each length; None if messages
    differ here.
    """

    members: Mapping[str, _Part]
    sound: Memo[int, bytes] | None = None


class _Object(list[tuple[str, Any]]):
    """An object as its pairs, including names that stand twice; no JSON list is read as this
    type."""


class _Number(str):
    """A number's digits as they stand; no JSON text is read as this type."""


def check_names(
    value: bytes, *, flat: bool, envelope: tuple[str, ...], top: TopLevel | None = None
) -> None:
    """Raises contradiction if a name of the envelope stands twice with different values.

    `envelope`: the paths of the format's `Format.envelope`. `flat`: the format has messages whose
    top level is a row, so that the names there are columns. `top`: the message's top level if it
    was read already. A message that is no JSON object raises nothing here: its decoder says what is
    wrong.
    """
    if not begins_object(value):
        return
    whole = _parts(envelope)
    try:
        compact = compacted(value)
        if compact is value:
            if _single(value, whole, top):
                return
            compact = msgspec.json.format(value, indent=-1)
        if compact != value and _single(compact, whole):
            return
    except UNREADABLE:
        # Broken JSON, or JSON that only a lenient parser accepts.
        value = lenient(value)
    try:
        found = json.loads(value, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)
    except UNREADABLE:
        return
    _check(found, whole, flat=flat)


def columns_twice(image: msgspec.Raw | bytes) -> bool:
    """Whether a name stands twice in a JSON object, or in one of the objects in it."""
    text = bytes(image)
    if not text.startswith(b"{"):
        return False
    every = _Part({name: _Part({}) for name in _MEMBERS.decode(text)})
    if _single(text, every) or _single(msgspec.json.format(text, indent=-1), every):
        return False
    # Escapes make a text longer as well.
    found = json.loads(text, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)
    return _twice(found) or any(_twice(value) for _, value in found)


def _twice(found: Any) -> bool:
    return isinstance(found, _Object) and len(dict(found)) < len(found)


@lru_cache(maxsize=64)
def _parts(paths: tuple[str, ...]) -> _Part:
    """The envelope of the given dotted paths, as a tree."""
    members: dict[str, _Part] = {}
    for name in dict.fromkeys(path.partition(".")[0] for path in paths):
        inner = tuple(path[len(name) + 1 :] for path in paths if path.startswith(f"{name}."))
        members[name] = _parts(inner)._replace(
            sound=Memo(most=1_000) if name == _REPEATED else None
        )
    return _Part(members)


def _single(text: bytes, part: _Part, top: TopLevel | None = None) -> bool:
    """Whether no name of the envelope stands twice: if an object has each name once and no white
    space, it is as long as before when it is written again from its members."""
    members = _MEMBERS.decode(text) if top is None else top
    if len(msgspec.json.encode(members)) != len(text):
        return False
    for name, inside in part.members.items():
        if name in members and not _sound(bytes(members[name]), inside):
            return False
    return True


def _sound(inner: bytes, part: _Part) -> bool:
    """As `_single`, for an object or for each object in a list; any other value has no names."""
    if part.sound is not None and part.sound.get(len(inner)) == inner:
        return True
    if inner.startswith(b"{"):
        found = _single(inner, part)
    elif inner.startswith(b"[") and len(inner) > 2:
        found = all(_sound(bytes(element), part) for element in _ELEMENTS.decode(inner))
    else:
        return True
    if found and part.sound is not None:
        part.sound[len(inner)] = inner
    return found


def _check(found: Any, part: _Part, *, flat: bool) -> None:
    """As `check_names`, for a message that was read with all pairs of its objects."""
    if found.__class__ is list:
        for element in found:
            _check(element, part, flat=False)
    if not isinstance(found, _Object):
        return
    if flat and _OF_ROWS.isdisjoint(name for name, _ in found):
        return
    seen: dict[str, Any] = {}
    for name, value in found:
        if name in seen and _written(seen[name]) != _written(value):
            raise DecodeError(
                Code.CONTRADICTION,
                f"expected one value for {name[:40]!r}, got {_excerpt(seen[name])} and "
                f"{_excerpt(value)}; nothing of the message is applied",
            )
        seen[name] = value
        if name in part.members:
            _check(value, part.members[name], flat=False)


def _written(value: Any) -> str:
    """JSON of a value that was read with all pairs and the digits of numbers."""
    if isinstance(value, _Object):
        pairs = (f"{_written(name)}:{_written(inner)}" for name, inner in value)
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _excerpt(value: Any) -> str:
    text = _written(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
