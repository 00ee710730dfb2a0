"""What a sample of messages shows: formats, tables, keys, types, and what it leaves open.

The messages are decoded as silver decodes them, but without Spark and without a configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ingest.codes import Code
from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import DECODED
from ingest.files.framing import FRAMINGS, records
from ingest.formats import FORMATS
from ingest.names import quoted, table_name
from ingest.wire.contract import Message

MOST = 10_000
"""How many messages are read."""
_FIRST = 100
"""How many messages decide the framing."""
_TEXTS = 1_000
"""How many different values of a column are kept."""
_LONGEST = 100
"""How many characters of a value are kept; a longer value is text anyway."""
SCHEMALESS = Code.UNKNOWN_SCHEMA_ID.value
"""The code of a message whose schema must be looked up; its format is known."""
_COLUMNS = tuple(column.name for column in DECODED)


@dataclass
class Table:
    """One source table in the sample: its name, the columns of its key, the types of its columns if
    messages have them, and values of the other columns."""

    db: str | None
    schema: str | None
    name: str
    key: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    texts: dict[str, set[str]] = field(default_factory=dict)
    events: int = 0

    @property
    def label(self) -> str:
        """The table's name in a source's YAML, if it can be named there."""
        return ".".join(part for part in (self.db, self.schema, self.name) if part)

    @property
    def pattern(self) -> str:
        """The table's name in a tables file."""
        return ".".join(quoted(part) for part in (self.db, self.schema, self.name) if part)

    @property
    def undeclared(self) -> str:
        """Why a source's YAML cannot name the table; empty if it can."""
        try:
            table_name(self.label)
        except ValueError as error:
            return str(error)
        return ""


@dataclass
class Sample:
    """What all its messages show.

    - `formats` counts the messages that were recognised, `codes` errors and warnings; `errors` has
      the sentence of one of each.
    - `topics` are those of a capture of Kafka.
    - `more`: there are messages that were not read.
    - `positioned`: all messages are of a format that `order: auto` reads by arrival, and each
      change has a position in the source's log.
    """

    files: tuple[str, ...]
    framing: str
    messages: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    tables: dict[tuple[str | None, str | None, str], Table] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    more: bool = False
    positioned: bool = False

    @property
    def unrecognised(self) -> int:
        """How many messages could not be decoded, except for those that only lack their schema."""
        errors = {code.value for code in Code if code.severity == "error"} - {SCHEMALESS}
        return sum(count for code, count in self.codes.items() if code in errors)


def read_sample(
    files: Sequence[str], *, framing: str | None = None, format_: str = "auto"
) -> Sample:
    """Read at most MOST messages of the files. Without `framing`, the framing is taken with which
    most of the first messages can be decoded."""
    if framing is None:
        tried = [_read(files, way, format_, most=_FIRST) for way in FRAMINGS]
        framing = min(tried, key=_unlikeliness).framing
    sample = _read(files, framing, format_, most=MOST)
    if len(sample.formats) == 1 and FORMATS[next(iter(sample.formats))].positions:
        ordered = _read(files, framing, format_, most=MOST, order="source")
        lacking = ordered.codes[Code.ORDER_KEY_MISSING.value]
        sample.positioned = bool(ordered.tables) and not lacking
    return sample


def _unlikeliness(sample: Sample) -> tuple[float, int]:
    """Lowest for the framing with which most messages can be decoded, then for the one that cuts
    most."""
    if not sample.formats:
        return 1.0, 0
    return sample.unrecognised / sample.messages, -sum(sample.formats.values())


def _read(
    files: Sequence[str], framing: str, format_: str, *, most: int, order: str = "auto"
) -> Sample:
    sample = Sample(tuple(files), framing)
    place = {"path": "-", "framing": framing}
    source = Source.model_validate(
        {"name": "sample", "format": format_, "order": order, "files": place}
    )
    decoder = SourceDecoder(decode_spec(source))
    keys: dict[tuple[str | None, str | None, str], tuple[str, ...]] = {}
    messages = _messages(files, framing)
    for message in islice(messages, most):
        sample.messages += 1
        if framing == "kcat":
            sample.topics[message.topic] = None
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in decoder.rows(message)]
        known = (row for row in rows if row["kind"] != "reject" or row["error_code"] == SCHEMALESS)
        for name in dict.fromkeys(row["format"] for row in known):
            sample.formats.update([name] if name else [])
        for row in rows:
            _note(sample, row)
            if row["kind"] == "ddl" and row["table"] and row["key_columns"]:
                keys[row["db"], row["schema"], row["table"]] = tuple(row["key_columns"])
    sample.more = sample.messages == most and next(messages, None) is not None
    for table in sample.tables.values():
        # Gold takes what messages of rows leave open from a schema change.
        table.key = table.key or keys.get((table.db, table.schema, table.name), ())
    return sample


def _messages(files: Sequence[str], framing: str) -> Iterator[Message]:
    for ordinal, file in enumerate(files):
        with Path(file).open("rb") as stream:
            for number, record in enumerate(records(stream, framing, name=file)):
                yield Message.of(record, file, partition=ordinal, offset=number)


def _note(sample: Sample, row: dict[str, Any]) -> None:
    sample.codes.update(row["warnings"] or ())
    if row["kind"] == "reject":
        sample.codes[row["error_code"]] += 1
        sample.errors.setdefault(row["error_code"], row["error"])
    if not row["table"] or row["kind"] not in ("change", "fragment", "schema"):
        return
    names = (row["db"], row["schema"], row["table"])
    table = sample.tables.setdefault(names, Table(*names))
    table.types |= {column["name"]: column["type"] for column in _types(row)}
    table.key = tuple(row["key_columns"] or table.key)
    table.events += row["kind"] == "change"
    for image in (row["before"], row["after"]):
        for name, text in (image or {}).items():
            texts = table.texts.setdefault(name, set())
            if text is not None and len(texts) < _TEXTS:
                texts.add(text[:_LONGEST])


def _types(row: dict[str, Any]) -> list[dict[str, str]]:
    return [column._asdict() for column in row["columns"] or ()]
