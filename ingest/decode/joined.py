"""Objects that stand one after the other in a message, as Kinesis Data Firehose and the buffers of
producers join them. Each is read as a message of its own; if one of them cannot be read, none
counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats import FORMATS
from ingest.formats.detect import Recognised, recognised
from ingest.values.jsontext import one_after_the_other
from ingest.wire.contract import Message


class Joined(NamedTuple):
    """What was read: the format, the events, and the message without its key, which cannot be the
    key of all objects."""

    name: str
    events: list[Event]
    message: Message


def joined(
    message: Message,
    error: DecodeError,
    *,
    name: str | None,
    read: Callable[[Message, Recognised], list[Event]],
) -> Joined:
    """The events of a message that is no JSON by itself; of format `name` if that is given. Raises
    `error` if it does not consist of several objects, and the error of any object that cannot be
    read."""
    textual = name is None or FORMATS[name].recognise is not None
    if error.code is not Code.BAD_JSON or not textual:
        raise error
    parts = one_after_the_other(message.value or b"")
    if len(parts) < 2:
        raise error
    keyless = message._replace(key=None)
    events: list[Event] = []
    names: set[str] = set()
    for at, part in enumerate(parts, 1):
        one = keyless._replace(value=part)
        try:
            known = recognised(one) if name is None else Recognised(name)
            found = read(one, known)
        except DecodeError as refused:
            text = f"object {at} of {len(parts)} in the message: {refused.text}"
            raise DecodeError(refused.code, text) from None
        for number, event in enumerate(found):
            event.number = number if event.number is None else event.number
        events += found
        names.add(known.name)
    if len(names) > 1:
        raise DecodeError(
            Code.AMBIGUOUS_FORMAT,
            f"expected objects of one format in a message, got {', '.join(sorted(names))}",
        )
    return Joined(names.pop(), events, keyless)
