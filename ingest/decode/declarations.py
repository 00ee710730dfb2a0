"""What is declared about a source's tables, and counts if messages leave it out, or instead of
them."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.ddl.dialect import declared_dialect
from ingest.decode.keys import message_key_columns
from ingest.events import Event, complete
from ingest.formats import FORMATS
from ingest.names import declared_for
from ingest.wire.contract import FormatOptions, Message


class Declarations:
    """The names, keys and dialects that the YAML gives to one source, from the `options` of each
    format that it may use."""

    def __init__(self, options: Mapping[str, FormatOptions]) -> None:
        self._options = options
        general = next(iter(options.values()))
        self.has_keys = bool(general.keys)
        self._keys = general.keys
        self.table = general.default_table
        """The table of messages that name none."""
        names = (general.default_database, general.default_schema, general.default_table)
        self._names = names if any(names) else None

    def complete(self, event: Event) -> None:
        """Give an event the names that its message leaves out."""
        if self._names is not None:
            complete(event, self._names)

    def keys_of(self, event: Event) -> tuple[str, ...] | None:
        """The keys declared for the event's table."""
        if not self.has_keys:
            return None
        return tuple(declared_for(self._keys, (event.db, event.schema, event.table))) or None

    def key_columns(self, event: Event, message: Message) -> tuple[str, ...] | None:
        """The keys declared for the table, else the message's, else those of the Kafka key."""
        keys = self.keys_of(event)
        if keys:
            return keys
        if event.key_columns or message.key is None or event.op == "truncate":
            return event.key_columns
        return message_key_columns(message.key, event)

    def dialect(self, event: Event, name: str | None) -> str | None:
        """The dialect of the event's statement in a format: the declared one, else the format's."""
        if name is None:
            return None
        options = self._options.get(name)
        declared = options.options.get("dialect") if options is not None else None
        if declared is None:
            return FORMATS[name].dialect
        return declared_dialect(declared, db=event.db, schema=event.schema)
