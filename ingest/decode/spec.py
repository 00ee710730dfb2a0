"""From a source's YAML to how its messages are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingest.config.checks import checked_source
from ingest.config.options import format_options
from ingest.config.sources import Source
from ingest.decode.source import DecodeSpec
from ingest.errors import ConfigError, Mistake
from ingest.events import Event
from ingest.formats import FORMATS, order_scheme
from ingest.wire.contract import Message


def decode_spec(source: Source) -> DecodeSpec:
    """The DecodeSpec of a declared source, small enough to be sent to every worker."""
    names = [source.format] if source.format != "auto" else list(FORMATS)
    return DecodeSpec(
        source=source.name,
        format=source.format,
        order=source.order,
        files=source.files is not None and source.files.framing != "kcat",
        captured=source.files is not None and source.files.framing == "kcat",
        statements=source.statements,
        options={name: format_options(source, FORMATS[name]) for name in names},
        limits=source.limits.filled(),
        null_is_empty=source.rocketmq is not None,
    )


def decoder_of(format: str, **declared: Any) -> Callable[[Message], list[Event]]:
    """The decoder of a format as a function: a message -> its events, in order.

    `declared` is what a source's YAML may say of its values, under the same names: `time_zone`,
    `columns`, `keys`, `options`, `default_database` and the like. The function raises DecodeError
    for a message that cannot be decoded without guessing.

    Raises ConfigError if the format or what is declared is not known.
    """
    place = {"name": "library", "files": {"path": "-"}}
    source, mistakes = checked_source(
        {**place, **declared, "format": format}, "decoder_of", FORMATS
    )
    if source is not None and format == "auto":
        text = f"expected a format by its name ({', '.join(FORMATS)}), got auto"
        mistakes = [Mistake("decoder_of", None, text)]
    if source is None or mistakes:
        raise ConfigError(mistakes)
    decode = FORMATS[format].decoder(format_options(source, FORMATS[format]))
    return lambda message: list(decode(message))


def placed_by_timestamp(source: Source) -> bool:
    """Whether messages of the source may be ordered by arrival at a broker: within a partition by
    offset, and across partitions by the timestamps of the records."""
    if source.files is not None and source.files.framing != "kcat":
        return False
    if source.order == "auto" and source.format == "auto":
        return True
    return scheme(source, source.format) == "arrival"


def scheme(source: Source, format_: str | None) -> str:
    """Whether rows of `format_` in this source are ordered by `source` or by `arrival`."""
    return order_scheme(source.order, format_)


def domain(source: Source, format_: str) -> str:
    """The domain of the positions of changes of `format_` in this source: arrival, or a log.
    Positions of two domains cannot be compared (semantics.md, 75)."""
    if scheme(source, format_) == "arrival":
        return "arrival"
    return FORMATS[format_].log or format_
