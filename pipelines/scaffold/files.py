"""The files of a first configuration, with an explanation of each line, and what is still open."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import yaml

from pipelines.scaffold.guesses import guessed_key, guessed_type, seems_time
from pipelines.scaffold.sample import SCHEMALESS, Sample, Table
from pipelines.terminal.console import counted

SETTINGS = """\
# Settings of this installation; every key has this default.
warehouse: warehouse            # folder of the tables; or set catalog, where there is one
ddl: {additive: apply, widening: apply, destructive: review, unparsed: review}
retention: {bronze: null, silver: null}    # for ever; or days, like 90 days
"""


@dataclass
class Draft:
    """The files to write, by their names below the conf folder; `doubts` are sentences on what a
    person must decide."""

    files: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


def source_name(files: Sequence[str]) -> str:
    """A source's name, made from that of its first file."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", Path(files[0]).name.split(".")[0]).strip("_")
    return plain or "sample"


def draft(sample: Sample, name: str, *, root: Path) -> Draft:
    """The configuration of a source called `name`, whose relative paths begin at `root`."""
    made = Draft()
    messages = counted(sample.messages, "messages")
    lines = [f"# Written from a sample of {messages}: look through it, then run"]
    lines.append("# `ingest validate` and `ingest inspect --source`.")
    lines.append(_explained(f"name: {_value(name)}", "what commands and tables call the source"))
    lines += _format(sample, made)
    lines += _schemas(sample, made, name)
    lines += _transport(sample, made, root=root)
    lines += _order(sample, made)
    lines += _zone(sample, made)
    lines += _keys(sample, made)
    lines += _columns(sample, made)
    _note_undeclared(sample, made)
    if sample.more:
        made.doubts.append(f"only the first {sample.messages:,} messages were read; there are more")
    made.files[f"sources/{name}.yml"] = "\n".join(lines) + "\n"
    made.files[f"tables/{name}.yml"] = _tables(sample, name)
    _note_rejects(sample, made)
    return made


def _format(sample: Sample, made: Draft) -> Iterator[str]:
    if len(sample.formats) == 1:
        which = "every message in the sample"
        if sample.unrecognised:
            which = f"all messages in the sample but {sample.unrecognised:,}"
        yield _explained(f"format: {next(iter(sample.formats))}", f"of {which}")
        return
    found = ", ".join(f"{name} ({count:,})" for name, count in sample.formats.most_common())
    if found:
        yield _explained("format: auto", found)
    else:
        yield _explained("format: auto", "told from each message; none of the sample's was known")
        made.doubts.append("no message was recognised; set format:, or --framing")


def _schemas(sample: Sample, made: Draft, name: str) -> Iterator[str]:
    if SCHEMALESS not in sample.codes:
        return
    yield _explained("options:", "the messages refer to schemas that lie elsewhere")
    yield "  schema_registry: ${SCHEMA_REGISTRY:-http://localhost:8081}"
    yield _explained("  # schema_folder: schemas", "or a folder with each of them as ID.avsc")
    made.doubts.append(
        "the messages refer to schemas: correct schema_registry, or set schema_folder; then "
        f"`ingest inspect --source {name}` shows what they say"
    )


def _transport(sample: Sample, made: Draft, *, root: Path) -> Iterator[str]:
    yield _explained("files:", "where messages come from; new files are read as they appear")
    yield _explained(f"  path: {_value(_pattern(sample.files, root))}", "a path or a pattern")
    yield _explained(f"  framing: {sample.framing}", "how messages lie in a file")
    yield "# Or the topics themselves, instead of files:"
    topics = list(sample.topics) or ["TOPIC"]
    yield "# kafka:"
    yield "#   bootstrap_servers: ${KAFKA:-localhost:9092}"
    yield f"#   topics: {_value(topics)}"
    made.doubts.append("files: reads the sample itself; name your files or topics instead")


def _pattern(files: Sequence[str], root: Path) -> str:
    """One pattern for all the files, relative to `root` if they lie below it."""
    paths = [os.path.abspath(file) for file in files]
    if len(paths) > 1:
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])
        flat = all(os.path.dirname(path) == folder for path in paths)
        levels = zip(*(reversed(Path(path).suffixes) for path in paths), strict=False)
        shared = takewhile(lambda level: len(set(level)) == 1, levels)
        end = "".join(reversed([level[0] for level in shared]))
        last = f"*{glob.escape(end)}"
        folder = glob.escape(folder)
        path = os.path.join(folder, last if flat else os.path.join("**", last))
    else:
        path = glob.escape(paths[0])
    inside = path.startswith(beside := f"{glob.escape(str(root))}{os.sep}")
    return path.removeprefix(beside) if inside else path


def _order(sample: Sample, made: Draft) -> Iterator[str]:
    if "order_key_missing" in sample.codes:
        yield _explained("order: arrival", "messages came without a position in the log")
        made.doubts.append("messages lack a position in the log; the producer may have one to send")
    elif sample.positioned:
        yield _explained("order: source", "every change has a position in the source's log")


def _zone(sample: Sample, made: Draft) -> Iterator[str]:
    if "tz_assumed" in sample.codes:
        why = "times came without a zone and are read as UTC"
        yield _explained("# time_zone: Asia/Shanghai", why)
        made.doubts.append("times came without a zone and are read as UTC; set time_zone:")


def _declarable(sample: Sample) -> list[Table]:
    """The tables that a source's YAML can describe."""
    return [table for table in sample.tables.values() if not table.undeclared]


def _note_undeclared(sample: Sample, made: Draft) -> None:
    """Note what must be known of the other tables."""
    for table in sample.tables.values():
        if table.undeclared:
            text = f"no keys and columns can be declared for it: {table.undeclared}"
            made.doubts.append(f"{table.pattern}: {text}")


def _keys(sample: Sample, made: Draft) -> Iterator[str]:
    bare = [table for table in _declarable(sample) if not table.key and table.events]
    if not bare:
        return
    yield "# The messages of these tables name no key; until one stands here they are appended to:"
    yield "# keys:"
    for table in bare:
        key = guessed_key(table.name, table.texts)
        yield f"#   {_key(table.label)}: {_value([key or 'COLUMN'])}"
        seems = f"; is it {key}?" if key else ""
        made.doubts.append(f"{table.label}: no message names its key{seems}")


def _columns(sample: Sample, made: Draft) -> Iterator[str]:
    found: dict[str, Mapping[str, str]] = {}
    table_texts = {table.label: table.texts for table in sample.tables.values()}
    for table in _declarable(sample):
        untyped = {name: texts for name, texts in table.texts.items() if name not in table.types}
        _take_out_twins(table, untyped, made)
        if untyped:
            found[table.label] = {name: guessed_type(texts) for name, texts in untyped.items()}
            _note_times(table, untyped, made)
    if not found:
        return
    yield "# The messages carry no types. These are guessed from the sample's values: correct them"
    yield "# before the first run, in the words of your database or of Spark."
    yield "columns:"
    for label, types in found.items():
        yield f"  {_key(label)}:"
        for name, type_ in types.items():
            time = "  # or a time, like datetime?" if seems_time(table_texts[label][name]) else ""
            yield f"    {_key(name)}: {_value(type_)}{time}"
        guessed = counted(len(types), "columns")
        made.doubts.append(f"{label}: types of {guessed} are guessed from values")


def _take_out_twins(table: Table, untyped: dict[str, set[str]], made: Draft) -> None:
    """Leave one of the columns whose names differ in case alone, which is declared for both."""
    first: dict[str, str] = {}
    for name in list(untyped):
        one = first.setdefault(name.lower(), name)
        if one != name:
            del untyped[name]
            made.doubts.append(f"{table.label}: {one} and {name} are one column to gold")


def _note_times(table: Table, untyped: Mapping[str, set[str]], made: Draft) -> None:
    times = [name for name, texts in untyped.items() if seems_time(texts)]
    if times:
        listed = ", ".join(times)
        made.doubts.append(f"{table.label}: the numbers of {listed} may be times; see its format")


def _tables(sample: Sample, name: str) -> str:
    lines = [_explained(f"source: {_value(name)}", "whose tables these are")]
    lines += ["tables:", "  - from: '*'"]
    for table in sample.tables.values():
        lines.append(f"  # - from: {_value(table.pattern)}")
        open_ = {
            column: guessed_type(texts)
            for column, texts in table.texts.items()
            if table.types.get(column) == "string" and guessed_type(texts).startswith("decimal")
        }
        if open_:
            lines.append(f"  #   columns: {_value(open_)}   # came without precision")
    if sample.tables:
        lines.insert(2, "  # every table becomes gold.<db>_<table>; entries below are exceptions")
    return "\n".join(lines) + "\n"


def _note_rejects(sample: Sample, made: Draft) -> None:
    for code, error in sample.errors.items():
        if code not in ("order_key_missing", SCHEMALESS):
            made.doubts.append(f"{sample.codes[code]:,} x {code}: {error}")


def _explained(line: str, why: str) -> str:
    """A line with its comment, in the column where comments stand."""
    return f"{line:<31} # {why}"


def _value(value: object) -> str:
    """A value as YAML on one line, whatever text of a message it holds."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _key(value.replace("${", "$${") if isinstance(value, str) else value)


def _key(value: object) -> str:
    """A key, in which no variable is looked for."""
    if isinstance(value, str) and not value.isprintable():
        return json.dumps(value)
    # Within brackets, where more must be quoted than outside.
    return yaml.safe_dump([value], default_flow_style=True, width=2**31, allow_unicode=True)[1:-2]
