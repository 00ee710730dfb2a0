"""From a source's YAML to how its messages are read."""

from __future__ import annotations

from ingest.formats import FORMATS
from ingest.options import format_options
from ingest.reader import Reading
from ingest.sources import Source


def reading(source: Source) -> Reading:
    """The Reading of a declared source, small enough to be sent to every worker."""
    names = [source.format] if source.format != "auto" else list(FORMATS)
    return Reading(
        source=source.name,
        format=source.format,
        order=source.order,
        files=source.files is not None and source.files.framing != "kcat",
        options={name: format_options(source, FORMATS[name]) for name in names},
    )


def scheme(source: Source, format_: str | None) -> str:
    """Whether rows of `format_` in this source are ordered by `source` or by `arrival`."""
    if source.order != "auto":
        return source.order
    return FORMATS[format_].order if format_ is not None else "arrival"
