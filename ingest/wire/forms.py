"""Envelopes of one shape, each shape read by a struct of exactly its own members.

A form is learnt from a message. It is a struct in which every member that was sent is required and
no other is allowed; objects of the envelope are structs of the same kind. What a form reads is
written again and must have the length at which it came, otherwise the form does not count. That
proves that no name of the envelope stands twice (`doubled_names`), since written text is never
longer than the text that was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from ingest.memo import Memo
from ingest.values.jsontext import UNREADABLE

T = TypeVar("T", bound=Struct)
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_WRITTEN = msgspec.json.Encoder().encode
_PLAIN = int | str | None
_NAMES_MOST, _NAME_MOST = 64, 256
"""The most members of an object of the envelope, and the most characters of a name, so that little
is remembered of a kind of messages, whatever they hold."""
SEEN = 3
"""How many messages of a kind must come before a form is worth its cost."""

_Names = tuple[Any, ...]
_Decode = Callable[[bytes], Any]


class Part(NamedTuple):
    """An object of the envelope: the struct for what is read of it, and its members that are such
    objects too. `barred`: members that are objects of the envelope in other messages only."""

    type: type[Struct]
    members: Mapping[str, Part] = {}
    barred: frozenset[str] = frozenset()


class Forms(Generic[T]):
    """The forms of one source's messages, the last one of each topic at hand."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._by_topic: Memo[str, _Decode] = Memo(most=1_000)
        self._forms: Memo[_Names, _Decode | None] = Memo(most=64)
        self._seen: Memo[_Names, int] = Memo(most=1_000)

    def read(self, value: bytes, topic: str) -> T | None:
        """The message read into the format's struct, with defaults for members that it lacks; None
        if no form fits."""
        decode = self._by_topic.get(topic)
        if decode is not None and (envelope := _read(decode, value)) is not None:
            return cast(T, envelope)
        found = self._form(value)
        if found is None or found is decode:
            return None
        self._by_topic[topic] = found
        return cast("T | None", _read(found, value))

    def _form(self, value: bytes) -> _Decode | None:
        """The form of a message; None if it has none, or none yet."""
        try:
            names = _names(value, self._part)
        except (_NoForm, *UNREADABLE):
            return None
        if names in self._forms:
            return self._forms[names]
        seen = self._seen[names] = self._seen.get(names, 0) + 1
        if seen < SEEN:
            return None
        try:
            decode: _Decode | None = msgspec.json.Decoder(_struct(names, self._part)).decode
        except (TypeError, ValueError):
            # a name that no struct can have
            decode = None
        self._forms[names] = decode
        return decode


class _NoForm(Exception):
    """A message that can have no form: an object of the envelope stands where none is expected, or
    is missing where one is, or has more members than an envelope has."""


def _read(decode: _Decode, value: bytes) -> Struct | None:
    try:
        envelope: Struct = decode(value)
    except UNREADABLE:
        return None
    return envelope if len(_WRITTEN(envelope)) == len(value) else None


def _names(text: bytes, part: Part) -> _Names:
    """The members of an object; a member that is an object of the envelope comes with its own
    members."""
    if not text.startswith(b"{"):
        raise _NoForm
    members = _MEMBERS.decode(text)
    if len(members) > _NAMES_MOST:
        raise _NoForm
    found: list[tuple[str, _Names | None]] = []
    for name, raw in members.items():
        inner = part.members.get(name)
        if name in part.barred or len(name) > _NAME_MOST:
            raise _NoForm
        if inner is None:
            found.append((name, None))
        else:
            given = bytes(raw)
            found.append((name, () if given == b"null" else _names(given, inner)))
    return tuple(found)


def _struct(names: _Names, part: Part) -> type[Struct]:
    """The struct of an object with these members. A member that was not sent is as in the struct of
    the part."""
    known = {field.encode_name: field for field in msgspec.structs.fields(part.type)}
    fields: list[tuple[str, Any]] = []
    renamed: dict[str, str] = {}
    for number, (name, inner) in enumerate(names):
        field = known.pop(name, None)
        attribute = field.name if field is not None else f"member_{number}"
        type_: Any = Raw if field is None else _PLAIN if field.type is Any else field.type
        if name in part.members:
            type_ = _struct(inner, part.members[name]) if inner else None
        fields.append((attribute, type_))
        renamed[attribute] = name
    unsent: dict[str, Any] = {
        field.name: field.default_factory() if field.default is NODEFAULT else field.default
        for field in known.values()
    }
    for name, given in vars(part.type).items():
        if isinstance(given, property):
            unsent[name] = given
    return msgspec.defstruct(
        part.type.__name__,
        fields,
        namespace=unsent,
        rename=renamed,
        forbid_unknown_fields=True,
        gc=False,
    )
