"""A Debezium row change as one Event: its images as canonical text, how complete they are, and its
key.

Debezium's images are taken as they are: `before` is never completed from `after`. How complete it
is depends on the source. MySQL sends all columns. PostgreSQL sends what the table's REPLICA
IDENTITY holds; if that is the key alone, all other columns come with made-up values, mostly null.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.declared import Handling
from ingest.formats.debezium.envelope import (
    family_of_connector,
    key_of,
    of_cockroachdb,
    of_dsql,
    refuse_named_record,
    refuse_wrapped,
)
from ingest.formats.debezium.events import Heading, row_event
from ingest.formats.debezium.keys import JsonKeys, Keys, MakeKeys, of_columns, without_table
from ingest.formats.debezium.schema import Block, Schemas, of_flink
from ingest.formats.debezium.unavailable import (
    DEFAULT,
    NotCaptured,
    Placeholder,
    not_captured,
    not_in_change_table,
    without_cells,
)
from ingest.values import jsontext
from ingest.wire.avro.connect import Field
from ingest.wire.contract import FormatOptions, Message, TableName
from ingest.wire.contradictions import refuse_after

_UNTYPED = Code.UNTYPED.value
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
"""The headers of the two messages that a change of the key becomes."""


class Image(NamedTuple):
    """A row image as JSON gave it: its columns (None: there is no such image) and its raw text.

    `unset`: the columns whose null says nothing.
    """

    columns: dict[str, Any] | None
    raw: bytes
    unset: frozenset[str] = frozenset()


NO_IMAGE = Image(None, b"")
_NESTED = (dict, list)


class Rows:
    """Makes the Events of one source's row changes; remembers schema blocks and column types."""

    def __init__(self, options: FormatOptions, keys: MakeKeys = JsonKeys) -> None:
        given = options.options
        self.schemas = Schemas(
            options,
            Handling(
                decimals=given.get("decimal_handling", "auto"),
                unsigned=given.get("bigint_unsigned_handling", "auto"),
                binary=given.get("binary_handling", "bytes"),
                times=given.get("time_precision", "adaptive"),
                zone=options.time_zone,
            ),
        )
        self.placeholder = Placeholder(
            given.get("unavailable_placeholder") or DEFAULT,
            hexadecimal=given.get("binary_handling") == "hex",
        )
        self.full_identity = given.get("replica_identity") == "full"
        self.merge = given.get("partial_before") == "merge"
        self.keys: Keys = keys(self.schemas, self.texts)

    def image(self, raw: msgspec.Raw, warnings: list[str]) -> Image:
        """The image in a field of the envelope."""
        text = bytes(raw)
        columns = jsontext.image(text, warnings, marked=True)
        refuse_named_record(columns, text)
        cells = without_cells(columns, text)
        if cells is not None:
            return Image(jsontext.image(cells[0], [], marked=True), *cells)
        return Image(columns, text)

    def columns(self, heading: Heading, block: Block, fields: tuple[Field, ...]) -> Columns:
        """The columns of a change's table, whose rows have `fields` (of `block`)."""
        return self.schemas.columns(
            block,
            fields,
            heading.names,
            family=family_of_connector(heading.source),
            of_flink=of_flink(block, heading.source),
        )

    def change(
        self,
        heading: Heading,
        *,
        before: Image,
        after: Image,
        columns: Columns,
        message: Message,
    ) -> Event:
        """One row change. Raises no_image if neither an image nor a key names the row."""
        op, warnings = heading.op, heading.warnings
        refuse_wrapped(heading.source, before=before.columns, after=after.columns)
        before, after = _sides(op, before, after, warnings=warnings)
        key = self.keys.names(message.key, needed=columns.keys is None)
        flink = heading.source.connector is None
        key = without_table(key, after.columns or before.columns, flink=flink)
        if key is None and flink:
            key = key_of(heading.source)
        missing: list[str] = []
        keys = columns.keys or key
        dsql = flink and of_dsql(heading.source)
        if dsql and op == "delete" and before.columns:
            # nothing but the key is sent of it
            keys = tuple(before.columns)
        lacks = NotCaptured(before.unset, after.unset if op == "update" else frozenset())
        if heading.source.value_capture_type is not None and op in ("update", "delete"):
            lacks = not_captured(
                heading.source.value_capture_type,
                before=before.columns,
                after=after.columns,
                key=keys,
            )
        elif columns.family == "sqlserver" and op in ("update", "delete"):
            lacks = not_in_change_table(
                before.columns, after.columns, large=columns.large, known=columns.names
            )
        new, after_word = self._after(after, columns, missing, lacks=lacks.after, warnings=warnings)
        old, before_word = self._before(
            before,
            new,
            keys,
            columns=columns,
            invents=columns.family == "postgres"
            and not (self.full_identity or dsql or of_cockroachdb(heading.source)),
            missing=missing,
            lacks=lacks.before,
            warnings=warnings,
        )
        if new is None and (op != "delete" or (old is None and key is None)):
            raise _imageless(op, heading.op_raw, keyed=bool(message.key))
        event = row_event(heading, key_columns=key, types=columns.types)
        event.before, event.before_image = old, before_word
        event.after, event.after_image = new, after_word
        event.unavailable = missing or None
        self._name_row(event, message, columns, names=heading.names)
        return event

    def _name_row(
        self, event: Event, message: Message, columns: Columns, *, names: TableName
    ) -> None:
        """Give the event the row's key if its images do not name it and, if the key changed, the
        key before the change."""
        op, key, old, new = event.op, event.key_columns, event.before, event.after
        warnings = event.warnings if event.warnings is not None else []
        row = old if op == "delete" else new
        if key and (row is None or not row.keys() >= set(key)):
            event.key = of_columns(key, self.keys.row(message.key, columns, names))
            if row is not None:
                warnings.append(Code.KEY_NOT_IN_IMAGE.value)
        elif key and new is not None and old is not None and not old.keys() >= set(key):
            # a before image without the key does not show a change of the key
            event.key = {name: new[name] for name in key}
        if message.headers:
            for name, value in message.headers:
                # a changed key comes as a delete and a create that name each other's key
                if name == NEW_KEY and op == "delete":
                    event.half = 0
                elif name == OLD_KEY and op == "insert":
                    event.key_before = self.keys.row(value, columns, names)

    def _after(
        self,
        image: Image,
        columns: Columns,
        missing: list[str],
        *,
        lacks: frozenset[str],
        warnings: list[str],
    ) -> tuple[Row | None, str | None]:
        sent, raw, _ = image
        if sent is None:
            return None, None
        came = len(sent)
        for name in lacks:
            del sent[name]
        missing += sorted(lacks)
        row = self.texts(sent, raw, columns, missing=missing, warnings=warnings)
        if columns.sent <= came == len(row):
            return row, "full"
        warnings.append(Code.PARTIAL_IMAGE.value)
        return (row, "partial") if row else (None, None)

    def _before(
        self,
        image: Image,
        after: Row | None,
        keys: tuple[str, ...] | None,
        *,
        columns: Columns,
        invents: bool,
        missing: list[str],
        lacks: frozenset[str],
        warnings: list[str],
    ) -> tuple[Row | None, str | None]:
        sent, raw, _ = image
        if sent is None:
            return None, None
        came = len(sent)
        for name in lacks:
            del sent[name]
        if lacks and keys and sent.keys() == set(keys):
            came = len(sent)
        lost: list[str] = []
        row = self.texts(sent, raw, columns, missing=lost, warnings=warnings)
        if lost:
            missing += [name for name in lost if name not in missing]
        if invents:
            if keys and all(row.get(name) is not None for name in keys):
                made_up = columns.invented
                if all(
                    value is None or name in keys or value in made_up.get(name, ())
                    for name, value in row.items()
                ):
                    return {name: row[name] for name in keys}, "key"
        elif came == len(row):
            word = completeness(row, after, keys, sent=columns.sent)
            if word != "partial":
                return row, word
        warnings.append(Code.PARTIAL_IMAGE.value)
        if self.merge and after is not None:
            gone = {*lost, *lacks}
            return {name: v for name, v in {**after, **row}.items() if name not in gone}, "partial"
        return (row, "partial") if row else (None, None)

    def texts(
        self,
        image: dict[str, Any],
        raw: bytes,
        columns: Columns,
        missing: list[str],
        warnings: list[str],
    ) -> Row:
        """Makes `image` canonical text, without the columns that hold the placeholder."""
        absent = self.placeholder.columns(image)
        if absent:
            warnings.append(Code.PLACEHOLDER_VALUE.value)
            for name in absent:
                del image[name]
                if name not in missing:
                    missing.append(name)
        if columns.canonical:
            return image
        shape = columns.shapes.get(tuple(image)) or columns.shape(tuple(image))
        # in place, so that values that are text already, most of a row, are not touched again
        for name, convert in shape.converted:
            value = image[name]
            if convert is None and value.__class__ is int:
                image[name] = str(value)
            elif value is not None and value.__class__ not in _NESTED:
                image[name] = (convert or encoded.integer)(value, warnings)
        for name in shape.numbers:
            value = image[name]
            if value.__class__ is int:
                image[name] = str(value)
        if not jsontext.all_text(image.values()):
            _write_out(image, raw, columns, numbers=shape.numbers, warnings=warnings)
        if not shape.typed:
            warnings.append(_UNTYPED)
        return image


def completeness(
    row: Collection[str],
    after: Collection[str] | None,
    keys: tuple[str, ...] | None,
    *,
    sent: int,
) -> str:
    """How complete a row before with these columns is, compared with `after`, the columns of the
    row after: full, key or partial. `sent`: how many columns the message's schema declares."""
    came = len(row)
    if max(sent, len(after or ())) != came and keys and set(row) <= set(keys):
        return "key"
    return "full" if sent <= came and (after is None or set(row) >= set(after)) else "partial"


def _write_out(
    image: dict[str, Any], raw: bytes, columns: Columns, *, numbers: list[str], warnings: list[str]
) -> None:
    """Makes text of the values that are not text yet; notes the columns of integers, which are
    looked at first from now on."""
    members: dict[str, msgspec.Raw] | None = None
    for name, value in image.items():
        kind = value.__class__
        if kind is str or value is None:
            continue
        if kind is int:
            image[name] = str(value)
            numbers.append(name)
        elif kind is bool:
            image[name] = "true" if value else "false"
        else:
            text = columns.text_of(name, value, warnings)
            if text is None:
                members = jsontext.members(raw) if members is None else members
                text = bytes(members[name]).decode()
            image[name] = text


def _imageless(op: str, op_raw: str | None, *, keyed: bool) -> DecodeError:
    key = ""
    if op == "delete":
        key = " and no message key"
        if keyed:
            key = (
                " and a message key that names no columns; let the producer write keys as objects, "
                "without the transformation ExtractField"
            )
    text = f"expected an image of the row of op {op_raw or op}, got none{key}"
    return DecodeError(Code.NO_IMAGE, text)


def _sides(op: str, before: Image, after: Image, *, warnings: list[str]) -> tuple[Image, Image]:
    """The images of a change of this kind."""
    if op == "delete":
        refuse_after(op, after.columns)
        return before, NO_IMAGE
    if before.columns is not None and op in ("insert", "snapshot"):
        warnings.append(Code.BEFORE_ON_INSERT.value)
        return NO_IMAGE, after
    return before, after
