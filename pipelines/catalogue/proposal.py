"""A first configuration for a database: the texts of its YAML files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import yaml

from ingest.config.source_types import unknown_type
from ingest.names import DEFAULT_TARGET, RESERVED, quoted, target_name
from pipelines.catalogue.model import Catalogue, CatalogueTable


def source_text(catalogue: Catalogue, name: str, *, format_: str, types: bool) -> str:
    """The YAML of the source; `types`: with the types of all columns, which some formats lack."""
    prefix = catalogue.database
    if format_.startswith("debezium"):
        topics = rf"{prefix}(\..*)?"
    else:
        topics = prefix
    lines = [
        f"# {catalogue.kind} {catalogue.version}, database {catalogue.database}; {format_}",
        yaml.safe_dump({"name": name, "format": format_}, sort_keys=False).rstrip(),
        "kafka:",
        "  bootstrap_servers: ${KAFKA:-localhost:9092}",
        f"  topics_pattern: {_scalar(topics)}   # those that the connector writes to",
    ]
    if format_ == "debezium_avro":
        lines += ["options:", "  schema_registry: ${REGISTRY:-http://localhost:8081}"]
    if format_ == "wal2json":
        lines.append(_dumped({"default_database": catalogue.database}))
    if types:
        lines.append("columns:          # the source's own types; messages have none")
        for table in catalogue.tables:
            lines.append(f"  {_scalar(table.named(catalogue.database))}:")
            lines += [f"    {_scalar(c)}: {_known(t)}" for c, t in table.columns.items()]
    return "\n".join(lines) + "\n"


def tables_text(catalogue: Catalogue, name: str) -> str:
    """The YAML of the tables, each with its key and a target of its own."""
    lines = [f"source: {_scalar(name)}", "tables:"]
    names = list(_targets(catalogue))
    for table, target in zip(catalogue.tables, names, strict=True):
        levels = (catalogue.database, table.schema, table.name)
        pattern = ".".join(quoted(level) for level in levels if level)
        lines.append(f"  - from: {_scalar(pattern)}")
        lines.append(f"    target: {_scalar(target)}")
        if table.key:
            lines.append(f"    keys: [{', '.join(map(_scalar, table.key))}]")
        else:
            lines.append("    stored_as_scd_type: append   # no primary key: every row as it came")
    if not catalogue.tables:
        lines[-1] = "tables: [{from: '*'}]"
    return "\n".join(lines) + "\n"


def _targets(catalogue: Catalogue) -> Iterator[str]:
    """A target for each table: its name, with its schema if two tables have the same name, and a
    number if that does not tell them apart, as of `a-b` and `A_b`."""
    short = [_target(DEFAULT_TARGET, catalogue, table) for table in catalogue.tables]
    often = Counter(name.lower() for name in short)
    given = set(RESERVED)
    for name, table in zip(short, catalogue.tables, strict=True):
        alone = often[name.lower()] == 1
        target = first = name if alone else _target("{db}_{schema}_{table}", catalogue, table)
        numbers = count(2)
        while target.lower() in given:
            target = f"{first}_{next(numbers)}"
        given.add(target.lower())
        yield target


def _target(template: str, catalogue: Catalogue, table: CatalogueTable) -> str:
    return target_name(template, db=catalogue.database, schema=table.schema, table=table.name)


def _known(type_: str) -> str:
    """A column's type as YAML; one of the user's own, whose values are text, as text."""
    if unknown_type(type_) is None:
        return _scalar(type_)
    return f"text   # {' '.join(type_.split())}"


def _scalar(text: str) -> str:
    """A text as YAML on one line."""
    return (
        yaml.safe_dump(text, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()
    )


def _dumped(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False).rstrip()
