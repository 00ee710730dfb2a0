"""What a source's YAML says about the values in its messages, as it was when silver was decoded.

A value is decoded once, by the declarations of that day: a number that is called a date today was
text yesterday. Values that were decoded by different declarations must not meet in one column, so a
source's Declaration is kept and compared with today's. `keys` are not part of it: gold reads the
key of each row by the target's own, and another key is a schema change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ingest.config.options import option_value
from ingest.config.sources import Source
from ingest.formats import FORMATS
from ingest.names import declared_for

ACCESS = {"schema_registry", "schema_folder", "registry_user", "registry_timeout"}
"""Options that say where schemas are found: no value depends on them."""
_SETTINGS = (
    "time_zone",
    "order",
    "statements",
    "default_database",
    "default_schema",
    "default_table",
)


Arrival = Literal["files", "times"]
"""What the first number of a position is by arrival: that of the message's file, or the time of its
record in a topic, a queue or a capture of one."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What determines how a source is decoded. `order` is null if it is the default of the format;
    positions of two orders must not meet in one table (semantics.md, 75). `arrival` is by what
    messages are placed where their arrival orders them; null if that was not kept. `options` holds
    those that differ from their defaults, `columns` the declared types as written, by source table
    as written."""

    time_zone: str | None = None
    order: str | None = None
    arrival: Arrival | None = None
    statements: str = "auto"
    default_database: str | None = None
    default_schema: str | None = None
    default_table: str | None = None
    options: Mapping[str, Any] = {}
    columns: Mapping[str, Mapping[str, str]] = {}

    @classmethod
    def of(cls, source: Source) -> Declaration:
        """Today's."""
        named = {name: getattr(source, name) for name in _SETTINGS}
        pinned = FORMATS.get(source.format)
        if source.order in ("auto", pinned.order if pinned is not None else None):
            named["order"] = None
        columns = {table: dict(types) for table, types in source.columns.items()}
        by_file = source.files is not None and source.files.framing != "kcat"
        arrival: Arrival = "files" if by_file else "times"
        return cls(**named, arrival=arrival, options=_own_options(source), columns=columns)

    @classmethod
    def from_json(cls, text: str | bytes) -> Declaration:
        """What `to_json` wrote; raises msgspec.DecodeError where it is something else."""
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> bytes:
        """As JSON, in an order of its own."""
        return msgspec.json.encode(self, order="deterministic")


def changed_settings(before: Declaration, now: Declaration) -> list[str]:
    """What is declared otherwise now and concerns every table of the source, in words."""
    found = [
        f"{name} {_shown(getattr(now, name))} (was {_shown(getattr(before, name))})"
        for name in _SETTINGS
        if getattr(now, name) != getattr(before, name)
    ]
    for name in sorted({*before.options, *now.options}):
        was, is_ = before.options.get(name), now.options.get(name)
        if was != is_:
            found.append(f"option {name} {_shown(is_)} (was {_shown(was)})")
    return found


def changed_columns(
    before: Declaration, now: Declaration, table: tuple[str | None, str | None, str | None]
) -> list[str]:
    """The columns of one source table (db, schema, name), in lower case, that are declared with
    another type now, or only before or only now."""
    was, is_ = (_types(declared_for(each.columns, table)) for each in (before, now))
    return sorted(name for name in {*was, *is_} if was.get(name) != is_.get(name))


def _types(declared: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): "".join(type_.lower().split()) for name, type_ in declared.items()}


def _own_options(source: Source) -> dict[str, Any]:
    """The options that differ from their defaults and that a value may depend on."""
    names = [source.format] if source.format != "auto" else list(FORMATS)
    found: dict[str, Any] = {}
    for format_ in (FORMATS[name] for name in names):
        for key, option in format_.options.items():
            given = source.options.get(key)
            if given is None or option.secret or key in ACCESS:
                continue
            try:
                value = option_value(option, given)
            except ValueError:
                continue
            if value != option.default:
                found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _shown(value: Any) -> str:
    return "by default" if value is None else str(value)
