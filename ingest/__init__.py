"""Delta CDC Ingest's core: what change messages say, in one shape, whatever their wire format.

    from ingest import Message, decoder_of

    for event in decoder_of("canal")(Message(value=b'{"type": "INSERT", ...}')):
        print(event.op, event.table, event.after)

Nothing here needs Spark. The names below are the library's; what else the packages hold is theirs
and may change. Each is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.config.load import Config, load
    from ingest.decode.spec import decoder_of
    from ingest.errors import ConfigError, DecodeError, IngestError, TableError
    from ingest.events import SILVER, Event
    from ingest.formats import FORMATS
    from ingest.wire.contract import Format, FormatOptions, Message

__all__ = [
    "FORMATS",
    "SILVER",
    "Config",
    "ConfigError",
    "DecodeError",
    "Event",
    "Format",
    "FormatOptions",
    "IngestError",
    "Message",
    "TableError",
    "decoder_of",
    "load",
]
_HOMES = {
    "FORMATS": "ingest.formats",
    "SILVER": "ingest.events",
    "Config": "ingest.config.load",
    "ConfigError": "ingest.errors",
    "DecodeError": "ingest.errors",
    "Event": "ingest.events",
    "Format": "ingest.wire.contract",
    "FormatOptions": "ingest.wire.contract",
    "IngestError": "ingest.errors",
    "Message": "ingest.wire.contract",
    "TableError": "ingest.errors",
    "decoder_of": "ingest.decode.spec",
    "load": "ingest.config.load",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
