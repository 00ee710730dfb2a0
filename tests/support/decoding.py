"""Decoding one message in a test, without the lift around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats import FORMATS
from ingest.wire.contract import Decoder, FormatOptions, Message


def decoder(name: str, *, options: Mapping[str, Any] | None = None, **given: Any) -> Decoder:
    """The decoder of format `name`, its options with their defaults filled in."""
    format_ = FORMATS[name]
    filled = {key: option.default for key, option in format_.options.items()}
    return format_.decoder(FormatOptions(options={**filled, **(options or {})}, **given))


def events(decode: Decoder, value: bytes | Mapping[str, Any]) -> list[Event]:
    """The events of one message, given as bytes or as what its JSON says."""
    return list(decode(Message(value if isinstance(value, bytes) else json.dumps(value).encode())))


def events_of(decode: Decoder, *files: Path) -> list[Event]:
    """The events of files that hold one message a line, in order."""
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    return [event for line in lines if line.strip() for event in decode(Message(line))]


def code_of(decode: Decoder, value: bytes | Mapping[str, Any]) -> str | None:
    """The code with which a message is refused; None where it is decoded."""
    try:
        events(decode, value)
    except DecodeError as error:
        return error.code.value
    return None
