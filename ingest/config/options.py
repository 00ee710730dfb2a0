"""The options of a format, as a source's YAML gives them and as its decoder takes them."""

from __future__ import annotations

import re
from typing import Any

from ingest.addresses import after_login, wrong_address
from ingest.config.mistakes import nearest, shown
from ingest.config.model import path_text
from ingest.config.sources import Source
from ingest.wire.contract import Format, FormatOptions, Option

_MOST = 10**9
"""More than any number of seconds that somebody waits, and less than what a clock takes."""


def format_options(source: Source, format: Format) -> FormatOptions:
    """What `source` tells the decoder of `format`: its options with their defaults filled in.

    With `format: auto` a source may hold options of several formats: each gets its own, and keeps
    its default where the value is another's. Raises ValueError if a pinned format refuses one.
    """
    options = {key: option.default for key, option in format.options.items()}
    for key, given in source.options.items():
        if key in format.options and given is not None:
            try:
                options[key] = option_value(format.options[key], given)
            except ValueError:
                if source.format != "auto":
                    raise
    return FormatOptions(
        time_zone=source.time_zone,
        default_database=source.default_database,
        default_schema=source.default_schema,
        default_table=source.default_table,
        keys=source.keys,
        columns=source.columns,
        options=options,
    )


def option_value(option: Option, given: Any) -> Any:
    """`given` as `option` takes it; raises ValueError with what was expected instead."""
    value = _of_kind(option, given)
    if option.check is not None:
        option.check(value)
    return value


def _of_kind(option: Option, given: Any) -> Any:
    """`given` as an option of this kind takes it."""
    if option.kind == "choice":
        if given not in option.choices:
            words = ", ".join(option.choices)
            raise ValueError(
                f"expected one of {words}, got {shown(given)}{nearest(given, option.choices)}"
            )
        return given
    if option.kind == "bool" and str(given).lower() in ("true", "false"):
        return str(given).lower() == "true"
    if option.kind == "number" and re.fullmatch(r"-?\d+", str(given), re.ASCII):
        if not option.least <= int(given) <= _MOST:
            raise ValueError(f"expected a number from {option.least} to {_MOST}, got {given}")
        return int(given)
    if option.kind == "folder" and isinstance(given, str):
        return path_text(given) if given else given
    if option.kind == "text" and isinstance(given, str):
        return given
    if option.kind == "URL" and isinstance(given, str):
        wrong = wrong_address(given) if given else ""
        if wrong:
            raise ValueError(
                f"expected an address like http://host:8081, got `{after_login(given)}`: {wrong}"
            )
        return given
    if option.kind == "list" and isinstance(given, list | tuple):
        other = next((item for item in given if not isinstance(item, str)), None)
        if other is None and None not in given:
            return tuple(given)
        hint = "; put it in quotes" if isinstance(other, int | float) else ""
        raise ValueError(f"expected a list of texts, got {shown(other)} in it{hint}")
    kinds = {"bool": "true or false", "number": "a whole number", "list": "a list"}
    got = "something else, not shown" if option.secret else shown(given)
    hint = "; put it in quotes" if option.kind == "text" and isinstance(given, int | float) else ""
    raise ValueError(f"expected {kinds.get(option.kind, 'text')}, got {got}{hint}")
