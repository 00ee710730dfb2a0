"""Mistakes that show only when several parts of the configuration are read together."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ingest.config.masks import MaskSecret, found_secret
from ingest.config.mistakes import explain, unknown_key, unknown_word
from ingest.config.model import ConfigModel
from ingest.config.options import option_value
from ingest.config.routes import route
from ingest.config.settings import DdlPolicy, Settings
from ingest.config.sources import Source
from ingest.config.tables import TableOptions, Tables
from ingest.config.yaml import Document, Place, Scopes, dotted
from ingest.errors import Mistake
from ingest.names import covers, fields_of, literal, literals_over, lowered, target_name
from ingest.sql.metadata import gold_name
from ingest.wire.contract import Format, Option

Parts = Sequence[tuple[Document, ConfigModel | None]]


def value_at(document: Document, key: str) -> Any:
    """The value of `key` in `document`, whether or not the rest of it is right."""
    return document.value.get(key) if isinstance(document.value, dict) else None


def repeated_values(key: str, parts: Parts) -> Iterator[Mistake]:
    """Files with the same value at `key`, which must be each file's own: folders of checkpoints are
    named by it, and not every file system tells names apart by case."""
    first: dict[str, tuple[str, str]] = {}
    for document, _ in parts:
        value = value_at(document, key)
        if not isinstance(value, str):
            continue
        before, file = first.setdefault(value.lower(), (value, document.file))
        if file != document.file:
            case = "" if before == value else f", `{before}`, but for case"
            text = f"`{key}`: `{value}` is already that of {file}{case}"
            yield Mistake(document.file, document.line((key,)), text)


def tables_of_no_source(tables: Parts, sources: Parts) -> Iterator[Mistake]:
    """Tables files of sources that do not exist. Nothing is said if the name of some source cannot
    be read."""
    names = [value_at(document, "name") for document, _ in sources]
    if not names or not all(isinstance(name, str) for name in names):
        return
    for document, _ in tables:
        source = value_at(document, "source")
        if isinstance(source, str) and source not in names and not document.covers(("source",)):
            yield Mistake(
                document.file,
                document.line(("source",)),
                unknown_word("source", source, names),
            )


def format_mistakes(document: Document, formats: Mapping[str, Format]) -> Iterator[Mistake]:
    """A format that does not exist, options that it does not have, and values that they do not
    take."""
    name = value_at(document, "format")
    name = "auto" if name is None else name
    words = dict.fromkeys(("auto", *formats))
    if not isinstance(name, str) or not name or document.covers(("format",)):
        return
    if name not in words:
        yield Mistake(
            document.file, document.line(("format",)), unknown_word("format", name, words)
        )
        return
    options = value_at(document, "options")
    asked = list(formats.values()) if name == "auto" else [formats[name]]
    known = {key for format in asked for key in format.options}
    for key, value in options.items() if isinstance(options, dict) else ():
        place = ("options", key)
        if key not in known:
            text = (
                unknown_key(f"options.{key}", key, sorted(known))
                if known
                else f"`options.{key}` is not a known key; the format {name} has no options"
            )
            yield Mistake(document.file, document.line(place), text)
        elif value is not None and not document.covers(place):
            text = _refusal(value, [f.options[key] for f in asked if key in f.options])
            if text:
                yield Mistake(document.file, document.line(place), f"`options.{key}`: {text}")
    if _schemaless(document, known):
        text = f"`format`: {name} needs options.schema_registry or options.schema_folder"
        yield Mistake(document.file, document.line(("format",)), text)


def _schemaless(document: Document, known: Collection[str]) -> bool:
    """Whether messages refer to schemas and nothing says where these are. Files of Avro hold their
    own schemas."""
    places = [("options", key) for key in ("schema_registry", "schema_folder")]
    if not all(key in known for _, key in places) or value_at(document, "format") in (None, "auto"):
        return False
    options, files = value_at(document, "options"), value_at(document, "files")
    given = options if isinstance(options, dict) else {}
    if any(given.get(key) or document.covers(("options", key)) for _, key in places):
        return False
    return not isinstance(files, dict) or files.get("framing") != "avro_container"


def _refusal(value: Any, options: Sequence[Option]) -> str:
    """Why none of `options` takes `value`; empty if one does."""
    refusals = []
    for option in options:
        try:
            option_value(option, value)
            return ""
        except ValueError as error:
            refusals.append(str(error))
    return refusals[0]


def shadowed_patterns(document: Document, tables: Tables) -> Iterator[Mistake]:
    """Patterns that never apply, because a later entry matches everything that they match."""
    # Of the many that a database's catalogue gives, only those of one name, or that begin alike,
    # are held against each other.
    named: dict[tuple[str, ...], tuple[int, str]] = {}
    for j, entry in enumerate(tables.tables):
        for general in entry.patterns:
            names = literal(general)
            if names is not None:
                named[names] = (j, general)
    for i, entry in enumerate(tables.tables):
        for number, pattern in enumerate(entry.patterns):
            alike = [named[names] for names in literals_over(pattern) if names in named]
            over = [
                (j, general)
                for j, general in (*alike, *tables.wild.over(pattern))
                if j > i and covers(general, pattern)
            ]
            if over:
                j, general = max(over)
                place = ("tables", i, "from", number)
                line = document.line(("tables", j))
                out = "move the general entry above it"
                if covers(pattern, general):
                    out = "take one of them away"
                text = (
                    f"`tables[{i}].from`: `{pattern}` never applies, since the last entry that "
                    f"matches wins and `{general}` on line {line} matches all that it does; {out}"
                )
                yield Mistake(document.file, document.line(place), text)


def _twins(document: Document, tables: Tables) -> Iterator[Mistake]:
    """Targets that two entries lead to, whose tables would all be parked, since only one entry's
    may share a target (semantics.md, 27); also those whose names no catalog tells apart."""
    met: dict[str, tuple[str, Place]] = {}
    for i, entry in enumerate(tables.tables):
        own = "target" in entry.model_fields_set
        target = entry.target if own else tables.defaults.target
        whole = not fields_of(target)
        if not whole and not own:
            continue
        at = ("tables", i, "target" if own else "from")
        name = target_name(target, db=None, schema=None, table="") if whole else target
        first, there = met.setdefault(name.lower(), (target, at))
        if there == at or (first == target and not whole):
            continue
        line = document.line(there)
        if first == target:
            why = (
                f"`{target}` is already the target of the entry on line {line}; source tables "
                f"share a target only where one entry names them all, by a list in its `from`"
            )
        else:
            how = "without case" if first.lower() == target.lower() else "with `_` for other signs"
            why = f"`{target}` and `{first}` on line {line} are one table: names of tables are "
            why += f"matched {how}"
        text = f"`{dotted(('tables', i, 'target'))}`: {why}"
        yield Mistake(document.file, document.line(at), text)


def targets_of_two_sources(tables: Sequence[tuple[Document, Tables]]) -> Iterator[Mistake]:
    """Targets that the tables files of two sources name. Only one source can feed a target, since
    there is no order across sources (semantics.md, 70), so the tables of the second one would be
    parked.

    Templates like `{db}_{table}` are not looked at, since only the data says what they become.
    """
    first: dict[str, tuple[str, str, Document, Place]] = {}
    for document, part in tables:
        own = all("target" in entry.model_fields_set for entry in part.tables)
        for place, options in _options_of(part):
            unused = place == ("defaults",) and own
            if unused or "target" not in options.model_fields_set or fields_of(options.target):
                continue
            at = (*place, "target")
            name = target_name(options.target, db=None, schema=None, table="")
            source, written_as, before, there = first.setdefault(
                name.lower(), (part.source, options.target, document, at)
            )
            if source != part.source:
                alike = "" if written_as == options.target else f" (there `{written_as}`)"
                text = (
                    f"`{dotted(at)}`: `{options.target}` is already the target of source {source}, "
                    f"in {before.file} line {before.line(there)}{alike}; expected a target that "
                    f"one source feeds, since no order holds across sources; name another"
                )
                yield Mistake(document.file, document.line(at), text)


def wrong_targets(
    document: Document, tables: Tables, settings: Settings | None
) -> Iterator[Mistake]:
    """Targets of a tables file that cannot be their names; `settings` None: the settings are
    wrong."""
    yield from _twins(document, tables)
    if settings is not None:
        yield from _with_schemas(document, tables, settings.schemas.gold)


def _with_schemas(document: Document, tables: Tables, gold: str) -> Iterator[Mistake]:
    """Targets that are written with the schema of gold before them, which would become part of
    their name."""
    before = re.compile(rf"(?:.*\.)?{gold}\.", re.IGNORECASE | re.DOTALL)
    for place, options in _options_of(tables):
        found = before.match(options.target) if "target" in options.model_fields_set else None
        if found is not None:
            at = (*place, "target")
            text = (
                f"`{dotted(at)}`: expected the name of a table alone, got `{options.target}`: all "
                f"targets are in the schema {gold}; write `{options.target[found.end() :]}`"
            )
            yield Mistake(document.file, document.line(at), text)


def renamed_targets(tables: Tables) -> Iterator[str]:
    """A sentence for each target that will be called otherwise than it is written."""
    for entry in tables.tables:
        literal = entry.target if "{" not in entry.target else ""
        name = target_name(literal, db=None, schema=None, table="")
        if name != literal:
            yield f"source {tables.source}: the target `{literal}` is called {name}"


def contradictions(
    sources: Parts, tables: Mapping[str, tuple[Document, Tables]], formats: Mapping[str, Format]
) -> Iterator[Mistake]:
    """What a source's file and its tables file say that does not go together; `tables`: by
    source."""
    for document, source in sources:
        if isinstance(source, Source) and source.name in tables:
            yield from _hidden_keys(document, source, tables[source.name])
            yield from _endless(source, *tables[source.name], formats=formats)


def _endless(
    source: Source, document: Document, part: Tables, *, formats: Mapping[str, Format]
) -> Iterator[Mistake]:
    """Sources that ask for whole transactions although their format does not tell where these
    end."""
    format_ = formats.get(source.format)
    if part.publish == "transaction" and format_ is not None and not format_.ends:
        able = ", ".join(name for name, other in formats.items() if other.ends)
        text = (
            f"`publish`: expected event for the source {source.name}, got `transaction`: messages "
            f"of the format {source.format} do not tell where a transaction ends, so gold would "
            f"wait for ever for each that they name; those of {able} may"
        )
        yield Mistake(document.file, document.line(("publish",)), text)


def _hidden_keys(
    document: Document, source: Source, tables: tuple[Document, Tables]
) -> Iterator[Mistake]:
    """Key columns that the source's YAML names although the tables file excludes them, or masks
    them so that they would not tell rows apart."""
    tables_file, part = tables
    for name, keys in source.keys.items():
        *outer, table = name.split(".")
        db, schema = (outer[0] if outer else None), (outer[1] if len(outer) > 1 else None)
        found = route(part, db, schema, table=table, ddl=DdlPolicy())
        if found is None or found.keys is not None:
            continue
        hidden = lowered(found.exclude)
        masked = {column.lower(): mask.mode for column, mask in found.masks.items()}
        for i, key in enumerate(keys):
            called = gold_name(key).lower()
            mode = masked.get(called, "hash")
            if called in hidden or mode != "hash":
                wrong = (
                    f"is excluded in {tables_file.file}"
                    if called in hidden
                    else f"can only be masked by hash, got `{mode}` in {tables_file.file}"
                )
                text = f"`keys.{name}`: the key column `{key}` {wrong}"
                yield Mistake(document.file, document.line(("keys", name, i)), text)


def masks_secret(
    settings: Settings,
    tables: Sequence[tuple[Document, Tables | None]],
    *,
    root: Path,
    environ: Mapping[str, str],
    scopes: Scopes | None,
) -> tuple[MaskSecret | None, list[Mistake]]:
    """The secret of the masks if some mask needs one, or the mistake that there is none."""
    needing = [
        (document, (*place, "columns", name))
        for document, part in tables
        if part is not None
        for place, options in _options_of(part)
        for name, said in options.columns.items()
        if said.mask in ("hash", "tokens")
    ]
    if not needing:
        return None, []
    document, place = needing[0]
    try:
        if settings.mask_secret is None:
            raise ValueError(
                "a mask by hash or tokens takes a secret; set `mask_secret` in ingest.yml to "
                "`env:NAME`, `file:PATH` or `secret:SCOPE/KEY`"
            )
        found = found_secret(settings.mask_secret, environ=environ, root=root, scopes=scopes)
        return found, []
    except ValueError as error:
        text = f"`{dotted(place)}`: {error}"
        return None, [Mistake(document.file, document.line(place), text)]


def _options_of(tables: Tables) -> Iterator[tuple[Place, TableOptions]]:
    yield ("defaults",), tables.defaults
    for i, entry in enumerate(tables.tables):
        yield ("tables", i), entry


def misplaced_files(folder: Path) -> Iterator[Mistake]:
    """Files and folders that look like configuration but would silently have no effect."""
    try:
        yield from _misplaced(folder)
    except OSError as error:
        yield Mistake(str(error.filename), None, f"cannot be read: {error.strerror}")


def _misplaced(folder: Path) -> Iterator[Mistake]:
    for path in sorted(folder.iterdir()):
        if hidden(path):
            continue
        text = _not_read_folder(path) if path.is_dir() else _not_read_setting(path)
        if path.name in _PARTS and not path.is_dir():
            text = f"expected a folder of files like {path.name}/NAME.yml, got none"
        if text:
            yield Mistake(str(path), None, f"is not read; {text}")
    for part in _PARTS:
        within = folder / part
        for path in sorted(within.iterdir()) if within.is_dir() else ():
            if hidden(path):
                continue
            if path.is_dir():
                text = f"is not read; expected files like {part}/NAME.yml, got a folder"
                yield Mistake(str(path), None, text)
            elif path.suffix != ".yml" and path.suffix.lower() in _LIKE_YAML:
                yield Mistake(str(path), None, f"is not read; call it {path.stem}.yml")


_PARTS = ("sources", "tables")
_LIKE_YAML = (".yml", ".yaml", ".json")
_BUNDLE = "bundle"
"""A folder beside the configuration that only Databricks reads (docs/databricks.md)."""


def hidden(path: Path) -> bool:
    """Whether this is some tool's, and nothing to read: editors keep locks and copies so, macOS
    what its disks have no place for, and a volume of Kubernetes a folder with the files to which
    links lead."""
    return path.name.startswith(".")


def _not_read_folder(folder: Path) -> str:
    """What to do about a folder beside `sources` and `tables`; empty if nothing suggests that it
    was meant to be read."""
    if folder.name in _PARTS or folder.name == _BUNDLE:
        return ""
    near = difflib.get_close_matches(folder.name.lower(), _PARTS, n=1, cutoff=0.8)
    if near:
        return f"nearest: {near[0]}"
    # Nothing is known of a folder that may not be opened.
    held = [path.name.lower() for path in folder.iterdir()] if os.access(folder, os.R_OK) else []
    if any(name in _PARTS or name.endswith((".yml", ".yaml")) for name in held):
        return "expected ingest.yml, sources/NAME.yml or tables/NAME.yml"
    return ""


def _not_read_setting(file: Path) -> str:
    """What to do about a file beside `ingest.yml`; empty if nothing suggests that it was meant to
    be read."""
    name = file.name.lower()
    if file.name == "ingest.yml" or not name.endswith(_LIKE_YAML):
        return ""
    if file.stem.lower() == "ingest":
        return "call it ingest.yml"
    if name.endswith(".json"):
        return ""
    return "expected ingest.yml, sources/NAME.yml or tables/NAME.yml"


def checked_source(
    declared: Mapping[str, Any], place: str, formats: Mapping[str, Format]
) -> tuple[Source | None, list[Mistake]]:
    """A source that is declared elsewhere than in a file, validated like one: the source, or None
    with every mistake. `place` is what the mistakes name as the place where they are."""
    mistakes = list(format_mistakes(Document(place, declared, {}), formats))
    try:
        source = Source.model_validate(declared)
    except ValidationError as error:
        mistakes += [Mistake(place, None, text) for _, text in explain(error, Source)]
    return (None if mistakes else source), mistakes
