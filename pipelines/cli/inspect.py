"""`ingest inspect`: messages of files or standard input as the silver rows they become.

Starts no Spark and answers at once, so nothing heavy is imported here; the decoding is the same as
that of the silver job, one message after the other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ingest.errors import ConfigError, Mistake
from ingest.events import SILVER
from ingest.files.framing import FRAMINGS, records
from ingest.files.record import in_file
from ingest.wire.contract import FormatOptions, Message
from pipelines.cli.source_options import given_source, is_given

if TYPE_CHECKING:
    from ingest.config.sources import Source
    from ingest.decode.source import DecodeSpec
STANDARD_INPUT = "-"
COLUMNS = tuple(column.name for column in SILVER)
SHOWN = ("at", "format", "kind", "op", "table", "key", "before", "after", "notes")
LOOKED_AT, LOOKED_AT_MOST = 10, 1000
NO_KEY = "no key: declare keys: in the source, or --keys"
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = frozenset(column.name for column in SILVER if column.type == "timestamp")


def inspect(
    files: Sequence[str],
    *,
    format_: str | None = None,
    framing: str | None = None,
    source: Source | None = None,
    given: Mapping[str, Any] | None = None,
    messages: Sequence[Message] | None = None,
    first: int | None = None,
) -> Iterator[dict[str, Any]]:
    """The silver rows of the messages, as dicts of all its columns; `batch` is null.

    `source` gives what the other arguments leave out; `given` is what the command line says of it.
    Raises ConfigError for a file, format or framing that does not exist, and for what a source's
    YAML would not be allowed to say. `messages` are decoded instead of those of the files; of
    either no more than the `first` so many.
    """
    files = files or ((STANDARD_INPUT,) if messages is None else ())
    check_given(files, format_=format_, framing=framing)
    if framing is None:
        framing = source.files.framing if source is not None and source.files is not None else None
    framing = framing or "lines"
    if given is not None and is_given(given):
        source = given_source(source, given, format_=format_, framing=framing)
    spec = _spec(source, format_, framing)
    if messages is not None and source is not None:
        spec = spec._replace(files=source.files is not None and framing != "kcat")
    epoch = source.epoch if source is not None else 0
    most = spec.limits.unpacked_bytes
    taken = _messages(files, framing, most) if messages is None else iter(messages)
    return _silver_rows(islice(taken, first), spec, epoch)


def first(numbers: Sequence[str]) -> int | None:
    """How many messages to look at; None where no number is given.

    Raises ConfigError where it is none of 1 to 1,000: those of a source are held in memory.
    """
    if not numbers:
        return None
    # Python reads no number of thousands of digits.
    digits = numbers[-1].lstrip("0")
    if len(digits) > len(str(LOOKED_AT_MOST)) or not 1 <= int(digits or 0) <= LOOKED_AT_MOST:
        text = f"`--limit`: expected 1 to {LOOKED_AT_MOST:,} messages, got {numbers[-1]}"
        raise ConfigError([Mistake("command line", None, text)])
    return int(digits)


def sampled(source: Source, root: Path, limit: int | None, *, newest: bool) -> list[Message]:
    """Messages that a source has now, LOOKED_AT of them without a limit; raises PlatformError where
    it cannot be read."""
    from pipelines.bronze.transport import Sampling
    from pipelines.bronze.transports import transport_of

    return transport_of(source).sample(source, str(root), Sampling(limit or LOOKED_AT, newest))


def _spec(source: Source | None, format_: str | None, framing: str) -> DecodeSpec:
    if source is not None:
        from ingest.decode.spec import decode_spec

        if format_ is not None:
            source = source.model_copy(update={"format": format_})
        return decode_spec(source)._replace(files=framing != "kcat")
    from ingest.decode.source import DecodeSpec
    from ingest.formats import FORMATS

    names = list(FORMATS) if format_ in (None, "auto") else [str(format_)]
    options = {
        name: FormatOptions(
            options={key: option.default for key, option in FORMATS[name].options.items()}
        )
        for name in names
    }
    return DecodeSpec(
        source="inspect",
        format=format_ or "auto",
        order="auto",
        files=framing != "kcat",
        captured=framing == "kcat",
        options=options,
    )


def check_given(files: Sequence[str], *, format_: str | None, framing: str | None) -> None:
    """Raise ConfigError for files that cannot be read, and for words that name nothing."""
    from ingest.formats import FORMATS

    wrong = []
    for option, word, words in (
        ("--format", format_, ("auto", *FORMATS)),
        ("--framing", framing, tuple(FRAMINGS)),
    ):
        if word is not None and word not in words:
            from ingest.config.mistakes import unknown_word

            wrong.append(Mistake("command line", None, unknown_word(option, word, words)))
    for file in files:
        if file == STANDARD_INPUT:
            continue
        if not Path(file).exists():
            wrong.append(Mistake(file, None, "expected a file of messages, found none"))
        elif Path(file).is_dir():
            text = "expected a file of messages, got a folder; name the files in it"
            wrong.append(Mistake(file, None, text))
        elif not Path(file).is_file():
            text = "expected a file; what comes by a pipe is read as `-`"
            wrong.append(Mistake(file, None, text))
        elif not os.access(file, os.R_OK):
            wrong.append(Mistake(file, None, "expected a file that you may read"))
    if wrong:
        raise ConfigError(wrong)


def _messages(files: Sequence[str], framing: str, most: int | None) -> Iterator[Message]:
    """The messages of the files in order; files are numbered from 0, records likewise."""
    with ExitStack() as stack:
        for ordinal, file in enumerate(files):
            stream: BinaryIO
            # What is no UTF-8 in the name cannot be printed either.
            topic = file.encode(errors="backslashreplace").decode()
            if file == STANDARD_INPUT:
                stream = sys.stdin.buffer
            else:
                stream = stack.enter_context(open(file, "rb"))
            for number, record in enumerate(records(stream, framing, name=file, most=most)):
                if framing == "kcat":
                    record = in_file(record, ordinal, topic)
                yield Message.of(record, topic, partition=ordinal, offset=number)


def _silver_rows(
    taken: Iterator[Message], spec: DecodeSpec, epoch: int
) -> Iterator[dict[str, Any]]:
    from ingest.decode.source import SourceDecoder

    decoder = SourceDecoder(spec)
    for message in taken:
        for values in decoder.rows(message, epoch):
            row = dict(zip(COLUMNS, (*values, None), strict=True))
            for name in _TIMES:
                if row[name] is not None:
                    row[name] = instant(row[name])
            if row["columns"] is not None:
                row["columns"] = [column._asdict() for column in row["columns"]]
            yield row


def compact(row: Mapping[str, Any]) -> list[Any]:
    """The columns SHOWN, for people."""
    names = [row[part] for part in ("db", "schema", "table") if row[part] is not None]
    notes = list(row["warnings"] or ())
    if row["error_code"] is not None:
        notes = [f"{row['error_code']}: {row['error']}"]
    elif row["columns"] is not None:
        notes = [f"{column['name']} {column['type']}" for column in row["columns"]]
    elif row["kind"] == "change" and row["op"] != "truncate" and row["key"] is None:
        notes = [NO_KEY, *notes]
    elif row["ddl"] is not None:
        notes = [row["ddl"], *notes]
    at = f"{row['topic']}:{row['offset']}"
    return [
        at if row["row"] < 1 else f"{at}.{row['row']}",
        row["format"],
        row["kind"],
        row["op"] if row["op"] != "other" else row["op_raw"],
        ".".join(names) or None,
        row["key"],
        row["before"],
        row["after"],
        ", ".join(notes) or None,
    ]


def instant(micros: int) -> datetime | str:
    """A time of microseconds since 1970 as a time, or as words where Python has none."""
    try:
        return _BEGIN + timedelta(microseconds=micros)
    except OverflowError:
        # Beyond the year 9999, where Python's calendar ends and Spark's goes on.
        return f"{micros} microseconds since 1970-01-01"
