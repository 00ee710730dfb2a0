"""`ingest init`: a first configuration, from a sample of messages or a database's catalogue."""

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
    metavar="FILE",
    help="Messages as the producer writes them, packed or not. May be given several times.",
)
@click.option(
    "--from",
    "url",
    metavar="URL",
    help="A database, like postgresql://user@host/database or mysql://user@host/database.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "--name", metavar="S", help="The source's name. [default: that of the file or database]"
)
@click.option("--format", "format_", metavar="F", help="The wire format, instead of detecting it.")
@click.option("--framing", metavar="F", help="How records lie in a file, instead of finding out.")
@click.option("--types", is_flag=True, help="With --from: write the types of all columns, too.")
@everywhere
@click.pass_obj
def init(
    call: Invocation,
    files: tuple[str, ...],
    url: str | None,
    more: tuple[str, ...],
    name: str | None,
    format_: str | None,
    framing: str | None,
    types: bool,
) -> None:
    """Write a first configuration, each line explained.

    From a sample it finds the formats, tables, keys and types, and says what it is not sure of. Of
    a database it reads the catalogue alone, changes nothing there, and says what to set up for the
    connector that will read its log. Files that are there already are not written over; no Spark is
    started.
    """
    if url is not None:
        if files or more or framing is not None:
            raise click.UsageError("expected either --sample or --from, got both")
        _from_database(call, url, name=name, format_=format_ or "debezium", types=types)
        return
    if not files:
        raise click.UsageError("expected --sample FILE or --from URL, got neither")
    if types:
        raise click.UsageError("--types goes with --from: a sample's types are written anyway")
    _from_sample(call, (*files, *more), name=name, format_=format_, framing=framing)


def _from_sample(
    call: Invocation,
    given: tuple[str, ...],
    *,
    name: str | None,
    format_: str | None,
    framing: str | None,
) -> None:
    from pipelines.cli.inspect import STANDARD_INPUT, check_given
    from pipelines.scaffold.files import draft, source_name
    from pipelines.scaffold.sample import read_sample

    check_given(given, format_=format_, framing=framing)
    if STANDARD_INPUT in given:
        text = "`--sample`: expected files, got standard input, which no source reads; name a file"
        raise ConfigError([Mistake("command line", None, text)])
    name = name or source_name(given)
    conf = Path(call.conf)
    _check_free(conf, name)
    root = Path(os.path.abspath(conf)).parent
    sample = read_sample(given, framing=framing, format_=format_ or "auto")
    if not sample.messages:
        raise ConfigError([Mistake(", ".join(given), None, "expected messages, found none")])
    made = draft(sample, name, root=root)
    written = _written(made.files, conf)
    if call.json:
        call.console.rows(INIT, [*written, *(("doubt", None, text) for text in made.doubts)])
        return
    tables = [
        (table.label, ", ".join(table.key) or None, len({*table.types, *table.texts}), table.events)
        for table in sample.tables.values()
    ]
    if tables:
        call.console.rows(("table", "key", "columns", "changes"), tables)
    for _, file, _ in written:
        call.console.text(f"wrote {file}")
    for text in made.doubts:
        call.console.say(f"not sure: {text}")


def _from_database(
    call: Invocation, url: str, *, name: str | None, format_: str, types: bool
) -> None:
    from ingest.config.mistakes import unknown_word
    from ingest.formats import FORMATS
    from pipelines.catalogue import mysql, postgresql
    from pipelines.catalogue.address import parse_address
    from pipelines.catalogue.advice import advice
    from pipelines.catalogue.proposal import source_text, tables_text

    address = parse_address(url)
    if format_ not in FORMATS:
        text = unknown_word("--format", format_, sorted(FORMATS))
        raise ConfigError([Mistake("command line", None, text)])
    name = name or address.database
    conf = Path(call.conf)
    _check_free(conf, name)
    catalogue = (postgresql if address.reader == "postgresql" else mysql).read(address)
    typed = types or FORMATS[format_].untyped
    files = {
        f"sources/{name}.yml": source_text(catalogue, name, format_=format_, types=typed),
        f"tables/{name}.yml": tables_text(catalogue, name),
    }
    written = _written(files, conf)
    advised = list(advice(catalogue, format_))
    if call.json:
        call.console.rows(INIT, [*written, *(("advice", None, text) for text in advised)])
        return
    for _, file, _ in written:
        call.console.text(f"wrote {file}")
    call.console.text(f"To set up for {format_}:")
    for text in advised:
        call.console.text(f"- {text}")


def _written(files: dict[str, str], conf: Path) -> list[tuple[str, str, None]]:
    """Write a configuration that was found sound, with settings where there are none; what was
    written."""
    from ingest.config.load import load
    from pipelines.scaffold.files import SETTINGS

    if not (conf / "ingest.yml").exists():
        files["ingest.yml"] = SETTINGS
    with tempfile.TemporaryDirectory() as folder:
        _write(files, Path(folder) / "conf")
        try:
            load(Path(folder) / "conf", environ={})
        except ConfigError as error:
            # It stood elsewhere, for a moment.
            wrong = (
                m._replace(file=str(conf / Path(m.file).relative_to(Path(folder) / "conf")))
                for m in error.mistakes
            )
            text = "nothing was written, since it would be wrong:"
            raise ConfigError([m._replace(text=f"{text} {m.text}") for m in wrong]) from None
    _write(files, conf)
    return [("file", str(conf / file), None) for file in sorted(files)]


def _write(files: Mapping[str, str], conf: Path) -> None:
    try:
        for file, text in files.items():
            (conf / file).parent.mkdir(parents=True, exist_ok=True)
            (conf / file).write_text(text, encoding="utf-8")
    except OSError as error:
        text = f"cannot be written: {error.strerror}"
        raise ConfigError([Mistake(str(error.filename), None, text)]) from None


def _check_free(conf: Path, name: str) -> None:
    """See that nothing is written over, and that the name is one."""
    from pydantic import TypeAdapter, ValidationError

    from ingest.config.sources import SourceName

    try:
        TypeAdapter(SourceName).validate_python(name)
    except ValidationError:
        wanted = "expected a letter or digit, then letters, digits, `_`, `-` and `.`, 200 at most"
        raise ConfigError(
            [Mistake("command line", None, f"`--name`: {wanted}, got `{name}`")]
        ) from None
    there = [file for file in _files_of(conf, name) if file.exists()]
    if there:
        text = "is there already and is not written over; give another --name or --conf"
        raise ConfigError([Mistake(str(file), None, text) for file in there])
    taken = [
        Mistake(str(file), None, f"is of a source called `{name}` already; give another --name")
        for folder, key in (("sources", "name"), ("tables", "source"))
        for file in sorted((conf / folder).glob("*.yml"))
        if _named(file, key).lower() == name.lower()
    ]
    if taken:
        raise ConfigError(taken)


def _named(file: Path, key: str) -> str:
    """The name that a file gives at `key`; empty if it gives none, or cannot be read."""
    from ingest.config.checks import value_at
    from ingest.config.yaml import read

    found = value_at(read(file, environ=os.environ)[0], key)
    return found if isinstance(found, str) else ""


def _files_of(conf: Path, name: str) -> list[Path]:
    return [conf / folder / f"{name}.yml" for folder in ("sources", "tables")]
