"""Which format is this message? One answer, or a refusal that says why.

Every format of the registry is asked, and exactly one must recognise the message: a message that
several recognise is refused, never given to the first. Asking costs about as much as reading the
message, so the answer is remembered by the names of the message's top level. That is sound because
each recogniser is watched when a set of names comes for the first time: one that looked only at
names will always answer the same for these names; one that also looked at a value is asked every
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats import FORMATS
from ingest.memo import Memo
from ingest.values.jsontext import UNREADABLE, begins_object, check_utf8, excerpt, parse
from ingest.wire.contract import Format, Message, TopLevel
from ingest.wire.unrecognised import advice, advice_on_bytes

_TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMES_MOST = 64


class _Watched(Mapping[str, Any]):
    """A top level that notes whether a value was looked at, not just a name."""

    def __init__(self, top: TopLevel) -> None:
        self._top = top
        self.read = False

    def __getitem__(self, name: str) -> Any:
        value = self._top[name]
        self.read = True
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._top

    def __iter__(self) -> Iterator[str]:
        return iter(self._top)

    def __len__(self) -> int:
        return len(self._top)


class Recognised(NamedTuple):
    """What is known of a message after its format was recognised: the format's name, the top level
    if the message is strict JSON and, for other bytes, what was `read` of them."""

    name: str
    top: TopLevel | None = None
    read: object = None


class _Decision(NamedTuple):
    """What a set of top-level names decides.

    `sure`: the formats that recognise any message with these names. `asked`: those that must see
    the message's values.
    """

    sure: tuple[str, ...]
    asked: tuple[tuple[str, Callable[[TopLevel], bool]], ...]


class Detection:
    """Detects among the given formats; remembers what the names of a top level decide."""

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._json = tuple(
            (name, format_.recognise)
            for name, format_ in formats.items()
            if format_.recognise is not None
        )
        self._binary = tuple(
            (name, format_.recognise_bytes)
            for name, format_ in formats.items()
            if format_.recognise_bytes is not None
        )
        self._memo: Memo[tuple[str, ...], _Decision] = Memo(most=4_096)

    def detect(self, top: TopLevel, message: Message) -> str:
        """The one format that recognises a JSON message by its top level.

        Raises unknown_format or ambiguous_format; `message` is quoted in their text.
        """
        names = tuple(top)
        known = self._memo.get(names)
        if known is None:
            known = self._decide(names, top)
        if not known.asked and len(known.sure) == 1:
            return known.sure[0]
        found = list(known.sure)
        for name, recognise in known.asked:
            if _answer(recognise, top):
                found.append(name)
        if len(found) == 1:
            return found[0]
        named = f"the top-level names {', '.join(sorted(names)[:20])}"
        what = named if names else "an empty object"
        advised = "" if found else advice(top, message.headers)
        raise _refusal(found, message, what, advised=advised)

    def of(self, message: Message) -> Recognised:
        """The one format that recognises a message. Raises as `detect`, and bad_json."""
        value = message.value or b""
        if begins_object(value):
            try:
                top, strict = _top(value)
                return Recognised(self.detect(top, message), top if strict else None)
            except DecodeError:
                # Bytes that are no text show no format.
                check_utf8(value)
                raise
        read = {name: found for name, ask in self._binary if (found := ask(message))}
        found = [*read]
        if len(found) == 1:
            return Recognised(found[0], read=read[found[0]])
        known = None if found else advice_on_bytes(value, message.headers)
        advised = known or "set the source's format"
        raise _refusal(found, message, "bytes that are no JSON object", advised=advised)

    def _decide(self, names: tuple[str, ...], top: TopLevel) -> _Decision:
        sure: list[str] = []
        asked: list[tuple[str, Callable[[TopLevel], bool]]] = []
        for name, recognise in self._json:
            watched = _Watched(top)
            answer = _answer(recognise, watched)
            if watched.read:
                asked.append((name, recognise))
            elif answer:
                sure.append(name)
        known = _Decision(tuple(sure), tuple(asked))
        if len(names) <= _NAMES_MOST:
            self._memo[names] = known
        return known


def _top(value: bytes) -> tuple[TopLevel, bool]:
    """The top level of a message, and whether it was read strictly; validating it is left to its
    decoder."""
    try:
        return _TOP.decode(value), True
    except UNREADABLE:
        return parse(value, _TOP.decode, []), False


def _answer(recognise: Callable[[TopLevel], bool], top: TopLevel) -> bool:
    """A recogniser's answer; a message in which it cannot read a value is not of its format."""
    try:
        return recognise(top)
    except (DecodeError, *UNREADABLE):
        return False


def _refusal(found: list[str], message: Message, what: str, *, advised: str) -> DecodeError:
    quoted = excerpt(message.value or b"")
    if found:
        return DecodeError(
            Code.AMBIGUOUS_FORMAT,
            f"expected a message of one format, got {what}, which fit {', '.join(found)}: "
            f"{quoted}; set the source's format",
        )
    return DecodeError(
        Code.UNKNOWN_FORMAT,
        f"expected a message of one of the formats (`ingest formats`), got {what}: {quoted}; "
        f"{advised}",
    )


_DETECTION = Detection(FORMATS)


def recognised(message: Message) -> Recognised:
    """The one format of the registry that recognises a message; see `Detection.of`."""
    return _DETECTION.of(message)


def recognised_if_any(message: Message) -> Recognised | None:
    """The same; None if no format is recognised, or if recognising fails."""
    try:
        return recognised(message)
    except Exception:
        return None


def advice_on_refused(message: Message, code: Code, name: str) -> str | None:
    """What to do about a message that the JSON format `name` refused, if it is not of that format;
    None if nothing shows what it is."""
    if code not in (Code.BAD_JSON, Code.UNKNOWN_OP, Code.BAD_SHAPE):
        return None
    value = message.value or b""
    if code is Code.BAD_JSON or not begins_object(value):
        return advice_on_bytes(value, message.headers)
    other = recognised_if_any(message)
    if other is None or other.name == name:
        return None
    return f"it is recognised as {other.name}'s: if it is, set format: {other.name}"
