"""The whole configuration of an installation, read once, with every mistake reported at once.

`load` reads `ingest.yml`, `sources/*.yml` and `tables/*.yml` of a conf folder. Precedence of the
settings: command line, environment, `ingest.yml`, defaults. Relative paths in the YAML start at the
folder that holds the conf folder; those of the command line and the environment at the current one.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ingest.config.checks import (
    contradictions,
    format_mistakes,
    hidden,
    masks_secret,
    misplaced_files,
    repeated_values,
    shadowed_patterns,
    tables_of_no_source,
    targets_of_two_sources,
    wrong_targets,
)
from ingest.config.masks import MaskSecret
from ingest.config.mistakes import explain, shown
from ingest.config.model import ConfigModel
from ingest.config.routes import Route, route
from ingest.config.settings import URI, Settings, from_environment
from ingest.config.sources import Source
from ingest.config.tables import Tables
from ingest.config.yaml import Document, Place, Scopes, read
from ingest.errors import ConfigError, Mistake
from ingest.wire.contract import Format

Part = TypeVar("Part", bound=ConfigModel)
Reading = Callable[[Path], tuple[Document, list[Mistake]]]


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration without mistakes, read from the folder `conf`.

    `sources` and `tables` have the same keys, the names of the sources. `mask_secret`: the secret
    of the masks, if some mask needs one.
    """

    conf: Path
    settings: Settings
    sources: Mapping[str, Source]
    tables: Mapping[str, Tables]
    mask_secret: MaskSecret | None = None

    @property
    def root(self) -> Path:
        """The project's folder, in which the conf folder lies."""
        return self.conf.parent

    def route(
        self, source: str, *, db: str | None, schema: str | None, table: str | None
    ) -> Route | None:
        """Where a table of `source` goes; None: it stays in silver only, as does what names no
        table."""
        if not table:
            return None
        secret = self.mask_secret.name if self.mask_secret is not None else None
        return route(
            self.tables[source], db, schema, table=table, ddl=self.settings.ddl, secret=secret
        )


_NO_FOLDER = (
    "expected a folder with ingest.yml, sources/ and tables/, found none; `ingest init` writes a "
    "first one, `--conf DIR` names another"
)


def load(
    conf: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    scopes: Scopes | None = None,
) -> Config:
    """Reads and checks the conf folder; raises ConfigError with every mistake in it.

    `overrides` are settings from the command line, nested like the file. `environ` is the process's
    environment and `formats` the registry, unless given; `scopes` asks the platform for secrets.
    """
    folder = Path(conf)
    environ = os.environ if environ is None else environ
    if formats is None:
        from ingest.formats import FORMATS

        formats = FORMATS
    if not folder.is_dir():
        raise ConfigError([Mistake(str(folder), None, _NO_FOLDER)])
    root = Path(os.path.abspath(folder)).parent
    mistakes = list(misplaced_files(folder))
    reading = partial(read, environ=environ, scopes=scopes)
    settings = _settings(
        folder / "ingest.yml",
        reading,
        root=root,
        overrides=overrides or {},
        environ=environ,
        to=mistakes,
    )
    sources = _parts(folder / "sources", Source, reading, to=mistakes)
    tables = _parts(folder / "tables", Tables, reading, to=mistakes)
    if not sources:
        text = "expected at least one source, in a file like shop.yml; found none"
        mistakes.append(Mistake(str(folder / "sources"), None, text))
    by_source = {part.source: (document, part) for document, part in tables if part is not None}
    mistakes += _between(sources, tables, by_source, settings=settings, formats=formats)
    secret = None
    if settings is not None:
        secret, wrong = masks_secret(settings, tables, root=root, environ=environ, scopes=scopes)
        mistakes += wrong
    if mistakes or settings is None:
        raise ConfigError(sorted(mistakes, key=lambda m: (m.file, m.line or 0)))
    by_name = {source.name: source for _, source in sources if source is not None}
    declared_tables = {part.source: part for _, part in tables if part is not None}
    return Config(
        conf=Path(os.path.abspath(folder)),
        settings=settings,
        mask_secret=secret,
        sources={name: located(source, root, formats) for name, source in by_name.items()},
        tables={name: declared_tables.get(name, Tables(source=name)) for name in by_name},
    )


def _between(
    sources: Sequence[tuple[Document, Source | None]],
    tables: Sequence[tuple[Document, Tables | None]],
    by_source: Mapping[str, tuple[Document, Tables]],
    *,
    settings: Settings | None,
    formats: Mapping[str, Format],
) -> Iterator[Mistake]:
    """Mistakes between keys of a file, and between files, each of which is right by itself."""
    for document, _ in sources:
        yield from format_mistakes(document, formats)
    yield from repeated_values("name", sources)
    yield from repeated_values("source", tables)
    yield from tables_of_no_source(tables, sources)
    readable = [(document, part) for document, part in tables if part is not None]
    for document, part in readable:
        yield from shadowed_patterns(document, part)
        yield from wrong_targets(document, part, settings)
    yield from targets_of_two_sources(readable)
    yield from contradictions(sources, by_source, formats)


def _part(document: Document, model: type[Part], given: Any, *, to: list[Mistake]) -> Part | None:
    if not isinstance(given, dict):
        text = f"expected keys with values, got {shown(given)}"
        to.append(Mistake(document.file, document.line(()), text))
        return None
    try:
        return model.model_validate(given)
    except ValidationError as error:
        for place, text in explain(error, model):
            if not document.covers(place):
                to.append(Mistake(document.file, document.line(place), text))
        return None


def _parts(
    folder: Path, model: type[Part], reading: Reading, *, to: list[Mistake]
) -> list[tuple[Document, Part | None]]:
    """Every file of `folder`, in order of name, as what it declares (None if it is wrong)."""
    parts = []
    for path in sorted(path for path in folder.glob("*.yml") if not hidden(path)):
        document, wrong = reading(path)
        to += wrong
        given = {} if document.value is None else document.value
        parts.append((document, _part(document, model, given, to=to) if document.parsed else None))
    return parts


def _settings(
    path: Path,
    reading: Reading,
    *,
    root: Path,
    overrides: Mapping[str, Any],
    environ: Mapping[str, str],
    to: list[Mistake],
) -> Settings | None:
    """The settings of all layers, paths absolute; None if any is wrong."""
    # A link that leads nowhere is there, and was meant to be read.
    there = os.path.lexists(path)
    document, wrong = reading(path) if there else (Document(str(path), None, {}), [])
    from_env, nearly = from_environment(environ)
    to += wrong + nearly
    written = {} if document.value is None else document.value
    if not isinstance(written, dict):
        _part(document, Settings, written, to=to)
        written = {}
    given = _over(_over(written, from_env), overrides)
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:
        for place, text in explain(error, Settings):
            if _has(overrides, place):
                to.append(Mistake("command line", None, text))
            elif _has(from_env, place):
                variable = "INGEST_" + "__".join(str(key) for key in place).upper()
                to.append(Mistake(f"environment variable {variable}", None, text))
            elif not document.covers(place):
                to.append(Mistake(document.file, document.line(place), text))
        return None
    to += _in_a_catalog(settings, from_env, overrides)
    here = Path(os.getcwd())

    def base(key: str) -> Path:
        return here if key in overrides or key in from_env else root

    warehouse = _absolute(settings.warehouse, base("warehouse"))
    checkpoints = f"{warehouse.rstrip('/')}/_checkpoints"
    if settings.checkpoints is not None:
        checkpoints = _absolute(settings.checkpoints, base("checkpoints"))
    return settings.model_copy(update={"warehouse": warehouse, "checkpoints": checkpoints})


def _in_a_catalog(
    settings: Settings, from_env: Mapping[str, Any], overrides: Mapping[str, Any]
) -> Iterator[Mistake]:
    """A warehouse folder that is set in a place which outranks the catalog: the tables would lie in
    the catalog all the same."""
    for layer, where, name in (
        (overrides, "command line", "--warehouse"),
        (from_env, "environment variable INGEST_WAREHOUSE", "warehouse"),
    ):
        if settings.catalog is None or "catalog" in layer:
            return
        if "warehouse" in layer:
            wanted = "expected a warehouse in a folder, got tables in the catalog"
            out = "take `catalog` out of the settings for that, or name both in one place"
            yield Mistake(where, None, f"`{name}`: {wanted} {settings.catalog}; {out}")


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with what `above` gives instead, part by part."""
    both = dict(below)
    for key, value in above.items():
        under = both.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            value = _over(under, value)
        both[key] = value
    return both


def _has(layer: Any, place: Place) -> bool:
    for key in place:
        if not isinstance(layer, Mapping) or key not in layer:
            return False
        layer = layer[key]
    return True


def located(source: Source, root: Path, formats: Mapping[str, Format]) -> Source:
    """The source with its paths absolute: a relative one starts at `root`."""
    changed: dict[str, Any] = {}
    if source.files is not None:
        # The folder's own name may hold what would be a wildcard in the pattern.
        path = _absolute(source.files.path, Path(glob.escape(str(root))))
        changed["files"] = source.files.model_copy(update={"path": path})
    if source.rocketmq is not None and source.rocketmq.ca_file is not None:
        certificates = _absolute(source.rocketmq.ca_file, root)
        changed["rocketmq"] = source.rocketmq.model_copy(update={"ca_file": certificates})
    if source.rabbitmq is not None and source.rabbitmq.tls is not None:
        given = source.rabbitmq.tls.model_dump(include={"ca_file", "cert_file", "key_file"})
        files = {key: _absolute(path, root) for key, path in given.items() if path}
        tls = source.rabbitmq.tls.model_copy(update=files)
        changed["rabbitmq"] = source.rabbitmq.model_copy(update={"tls": tls})
    asked = formats.values() if source.format == "auto" else [formats[source.format]]
    folders = {key for f in asked for key, o in f.options.items() if o.kind == "folder"}
    given = {key: source.options[key] for key in folders & source.options.keys()}
    if any(given.values()):
        found = {key: _absolute(path, root) for key, path in given.items() if path}
        changed["options"] = {**source.options, **found}
    return source.model_copy(update=changed) if changed else source


def _absolute(path: str, base: Path) -> str:
    return path if URI.match(path) else os.path.normpath(base / path)
