"""`conf/tables/*.yml`: which source tables become which gold tables, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from ingest.config.cadence import MergeEvery
from ingest.config.masks import ColumnOptions, column_options
from ingest.config.model import (
    Broken,
    ConfigModel,
    Names,
    OneOrMore,
    SomeNames,
    Text,
    one_or_more,
    some,
    texts,
)
from ingest.config.settings import DdlChoice
from ingest.ddl.risks import PolicyRisk
from ingest.names import DEFAULT_TARGET, PatternIndex, check_target, literal, parse_pattern
from ingest.sql.metadata import METADATA


def _pattern(text: str) -> str:
    parse_pattern(text)
    if "," in re.sub(r"`(?:[^`]|``)+`", "", text):
        raise ValueError(
            f"expected one table, got `{text}`; write several as a list, [shop.a, shop.b], and a "
            "name with a comma in it in backticks"
        )
    return text


Options = TypeVar("Options")
ScdType = Literal[1, 2, "append"]
"""What a table keeps, as the YAML has it; `ingest.config.modes` says what each comes to."""


def _scd_type(value: Any) -> Any:
    if isinstance(value, bool | float):
        return str(value).lower()
    return int(value) if value in ("1", "2") else value


Declared = Annotated[
    ColumnOptions,
    PlainValidator(column_options),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "minLength": 1},
                        "mask": {"enum": ["hash", "null", "tokens", None]},
                    },
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    ),
]
Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], AfterValidator(some)]


class TableOptions(ConfigModel):
    """How a source table becomes gold. `ddl` and `columns` are added to those of the defaults, key
    by key."""

    target: Annotated[Text, AfterValidator(check_target)] = DEFAULT_TARGET
    keys: SomeNames | None = None
    sequence_by: OneOrMore | None = None
    stored_as_scd_type: Annotated[ScdType, BeforeValidator(_scd_type)] = 1
    deletes: Literal["hard", "soft"] = "hard"
    truncates: Literal["apply", "ignore"] = "apply"
    columns: Mapping[Text, Declared] = Field(default={})
    exclude: Names = ()
    shard_column: Text | None = None
    merge_every: MergeEvery = None
    ddl: Mapping[PolicyRisk, DdlChoice] = {}


class TableEntry(TableOptions):
    """One line of `tables:`; its patterns stand in `patterns`, the YAML's `from`."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    patterns: Annotated[Patterns, BeforeValidator(one_or_more)] = Field(alias="from")


class Tables(ConfigModel):
    """The tables file of one source; without one, all its tables go to gold.

    `publish: transaction` lets all its targets advance together, to the last position below which
    every transaction is complete.
    """

    source: Text
    publish: Literal["event", "transaction"] = "event"
    defaults: TableOptions = TableOptions()
    tables: tuple[TableEntry, ...] = (TableEntry.model_validate({"from": "*"}),)

    @cached_property
    def named(self) -> Mapping[tuple[str, ...], int]:
        """The number of the last entry with a pattern without wildcards, by its names: a catalogue
        of thousands of tables is not gone through for each of them."""
        return {
            names: number
            for number, entry in enumerate(self.tables)
            for pattern in entry.patterns
            if (names := literal(pattern)) is not None
        }

    @cached_property
    def wild(self) -> PatternIndex:
        """The patterns with wildcards, each with the number of its entry."""
        return PatternIndex(
            (number, pattern)
            for number, entry in enumerate(self.tables)
            for pattern in entry.patterns
            if literal(pattern) is None
        )

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        defaults = given.get("defaults")
        defaults = defaults if isinstance(defaults, dict) else {}
        at_defaults = {(place, text) for place, text, _ in conflicts(defaults)}
        for place, text in sorted(at_defaults, key=str):
            yield ("defaults", *place), text
        entries = given.get("tables")
        for i, entry in enumerate(entries if isinstance(entries, list) else ()):
            if not isinstance(entry, dict):
                continue
            for place, text, other in conflicts(_merged(defaults, entry)):
                # A mistake of the defaults alone is reported once, at the defaults.
                if _is_own(place, entry):
                    yield ("tables", i, *place), text
                elif (place, text) not in at_defaults and other in entry:
                    yield ("tables", i, other), text
        if given.get("publish") == "transaction":
            yield from _apart(defaults, entries if isinstance(entries, list) else ())


def with_defaults(
    defaults: Mapping[str, Options], entry: Mapping[str, Options]
) -> dict[str, Options]:
    """What the defaults and an entry say about columns; names are matched without case, and the
    entry wins."""
    named = {name.lower() for name in entry}
    return {**{n: options for n, options in defaults.items() if n.lower() not in named}, **entry}


def _merged(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry as written, with what the defaults add to it."""
    both = {**defaults, **entry}
    below, above = defaults.get("columns"), entry.get("columns")
    if isinstance(below, dict) and isinstance(above, dict):
        both["columns"] = with_defaults(below, above)
    return both


def _is_own(place: tuple[str | int, ...], entry: Mapping[str, Any]) -> bool:
    """Whether the value at `place` is the entry's own."""
    own = entry.get(str(place[0]))
    return place[0] in entry and (place[0] != "columns" or place[1] in (own or {}))


def _apart(defaults: Mapping[str, Any], entries: Sequence[Any]) -> Iterator[Broken]:
    """Tables that are told to wait for a time of their own although all are to advance together."""
    places: dict[tuple[str | int, ...], Any] = {("defaults",): defaults}
    places |= {("tables", i): entry for i, entry in enumerate(entries)}
    for place, options in places.items():
        if isinstance(options, dict) and options.get("merge_every") is not None:
            text = "it lets a table wait, but `publish: transaction` lets all advance together"
            yield (*place, "merge_every"), text


def conflicts(options: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Options, as written, that do not go together: the place, the sentence, the other option."""
    if options.get("sequence_by") is not None and options.get("stored_as_scd_type") == "append":
        yield (
            ("sequence_by",),
            "orders the changes of a row, and `append` keeps a row for each; take one of them away",
            "stored_as_scd_type",
        )
    keys = {name.lower() for _, name in texts(options.get("keys"))}
    columns = options.get("columns")
    yield from _without_order(options, columns if isinstance(columns, dict) else {})
    declared: set[str] = set()
    for name in columns if isinstance(columns, dict) else ():
        if name.lower() in declared:
            yield ("columns", name), f"`{name}` stands twice, but for case", ""
        declared.add(name.lower())
    yield from _masks_that_leak(options, columns if isinstance(columns, dict) else {})
    if options.get("stored_as_scd_type") == "append" and options.get("deletes") == "soft":
        text = "`append` keeps every image and marks none as deleted: take `deletes: soft` away"
        yield ("deletes",), text, "stored_as_scd_type"
    shard = options.get("shard_column")
    shard = shard if isinstance(shard, str) else ""
    for i, name in texts(options.get("exclude")):
        if name.lower() in keys:
            yield ("exclude", i), f"`{name}` is a key column and cannot be excluded", "keys"
        if name.lower() == shard.lower():
            yield (
                ("exclude", i),
                f"`{name}` is the shard_column and cannot be excluded",
                "shard_column",
            )
    if shard.lower() in keys:
        yield ("shard_column",), f"`{shard}` is part of the key anyway; take it out of keys", "keys"
    ordering = texts(one_or_more(options.get("sequence_by")))
    if shard.lower() in {name.lower() for _, name in ordering}:
        text = f"`{shard}` is the shard_column, which orders nothing; name columns of the source"
        yield ("sequence_by",), text, "shard_column"
    if shard.lower() in declared:
        yield (
            ("shard_column",),
            f"`{shard}` is a column of the source; choose a new name",
            "columns",
        )
    if shard.lower() in METADATA:
        yield ("shard_column",), f"`{shard}` is a column that gold adds; choose another", ""


def _without_order(
    options: Mapping[str, Any], columns: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Columns of `sequence_by` that are declared with a type without an exact order; in the form of
    `conflicts`."""
    declared: dict[str, str] = {}
    for name, given in columns.items():
        with suppress(ValueError):
            declared[str(name).lower()] = column_options(given).held or ""
    given = options.get("sequence_by")
    named = [((), given)] if isinstance(given, str) else [((i,), n) for i, n in texts(given)]
    for at, column in named:
        if declared.get(column.lower()):
            # Imported here, because few files declare one, and it loads the modules of all queries.
            from ingest.sql.sequence import without_order

            text = without_order(declared[column.lower()])
            if text:
                yield ("sequence_by", *at), text, "columns"


def _masks_that_leak(
    options: Mapping[str, Any], columns: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Masks beside options that would show the value or which row is which, or lose it; in the form
    of `conflicts`."""
    masks = {}
    for name, given in columns.items():
        if isinstance(given, dict) and "mask" in given:
            masks[str(name).lower()] = (name, given["mask"] or "null")
    for _, key in texts(options.get("keys")):
        name, mask = masks.get(key.lower(), ("", "hash"))
        if mask != "hash":
            text = f"`{key}` is a key column, which can only be masked by hash, got `{mask}`"
            yield ("columns", name), text, "keys"
    given = options.get("sequence_by")
    for _, column in texts([given] if isinstance(given, str) else given):
        if column.lower() in masks:
            text = f"`{column}` orders the rows, whose `_pos` shows its values; it cannot be masked"
            yield ("columns", masks[column.lower()][0]), text, "sequence_by"
    for _, column in texts(options.get("exclude")):
        if column.lower() in masks:
            text = f"`{column}` is excluded, which leaves nothing to mask; take one of them away"
            yield ("columns", masks[column.lower()][0]), text, "exclude"
