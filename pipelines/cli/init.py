"""`ingest init`: a first configuration, written from a sample of messages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from ingest.errors import ConfigError, Mistake
from pipelines.cli.context import Invocation, everywhere

INIT = ("kind", "file", "told")


@click.command()
@click.option(
    "--sample",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Messages as the producer writes them, packed or not. May be given several times.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option("--name", metavar="S", help="The source's name. [default: that of the file]")
@click.option("--format", "format_", metavar="F", help="The wire format, instead of detecting it.")
@click.option("--framing", metavar="F", help="How records lie in a file, instead of finding out.")
@everywhere
@click.pass_obj
def init(
    call: Invocation,
    files: tuple[str, ...],
    more: tuple[str, ...],
    name: str | None,
    format_: str | None,
    framing: str | None,
) -> None:
    """Write a commented configuration from a sample of messages.

    It finds the formats, tables, keys and types, and says what it is not sure of. Files that are
    there already are not written over; no Spark is started.
    """
    from ingest.config.load import load
    from pipelines.cli.inspect import check_given
    from pipelines.scaffold.files import SETTINGS, draft, source_name
    from pipelines.scaffold.sample import read_sample

    given = (*files, *more)
    check_given(given, format_=format_, framing=framing)
    name = name or source_name(given)
    conf = Path(call.conf)
    _check_free(conf, name)
    root = Path(os.path.abspath(conf)).parent
    sample = read_sample(given, framing=framing, format_=format_ or "auto")
    made = draft(sample, name, root=root)
    if not (conf / "ingest.yml").exists():
        made.files["ingest.yml"] = SETTINGS
    with tempfile.TemporaryDirectory() as folder:
        _write(made.files, Path(folder) / "conf")
        load(Path(folder) / "conf", environ={})
    _write(made.files, conf)
    written = [("file", str(conf / file), None) for file in sorted(made.files)]
    if call.json:
        call.console.rows(INIT, [*written, *(("doubt", None, text) for text in made.doubts)])
        return
    found = [
        (table.label, ", ".join(table.key) or None, len({*table.types, *table.texts}), table.events)
        for table in sample.tables.values()
    ]
    if found:
        call.console.rows(("table", "key", "columns", "changes"), found)
    for _, file, _ in written:
        call.console.text(f"wrote {file}")
    for text in made.doubts:
        call.console.say(f"not sure: {text}")


def _write(files: Mapping[str, str], conf: Path) -> None:
    for file, text in files.items():
        (conf / file).parent.mkdir(parents=True, exist_ok=True)
        (conf / file).write_text(text, encoding="utf-8")


def _check_free(conf: Path, name: str) -> None:
    """See that nothing is written over, and that the name is one."""
    from pydantic import TypeAdapter, ValidationError

    from ingest.config.sources import SourceName

    try:
        TypeAdapter(SourceName).validate_python(name)
    except ValidationError:
        text = f"`--name`: expected letters, digits, `_`, `-` and `.`, got `{name}`"
        raise ConfigError([Mistake("command line", None, text)]) from None
    there = [file for file in _files_of(conf, name) if file.exists()]
    if there:
        text = "is there already and is not written over; give another --name or --conf"
        raise ConfigError([Mistake(str(file), None, text) for file in there])


def _files_of(conf: Path, name: str) -> list[Path]:
    return [conf / folder / f"{name}.yml" for folder in ("sources", "tables")]
