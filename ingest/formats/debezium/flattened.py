"""Rows flattened by ExtractNewRecordState: columns at the top level, the envelope's fields
prefixed.

Of the envelope only the fields in `add.fields` are left, above all `__op` and `__deleted`; the
setting may give them names of its own (`op:OPERATION`). There is no image before the change. A row
without these fields is an upsert, accepted with `flattened: true`. A delete is `__deleted`, `__op`
d, or (the transformation's default) a null value, with `tombstone: delete`. The fields in
`add.headers` are read from the message's headers, with the prefix `__`; a null value then says
itself whether it is a delete.

Source: https://debezium.io/documentation/reference/3.6/transformations/event-flattening.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.debezium.envelope import OPS, Source, Transaction, sent_micros
from ingest.formats.debezium.events import Heading, plain_event
from ingest.formats.debezium.mongodb import document_key
from ingest.formats.debezium.rows import NO_IMAGE, Image, Rows
from ingest.formats.debezium.schema import Block
from ingest.values import jsontext
from ingest.wire.contract import FormatOptions, Message, TableName
from ingest.wire.contradictions import refuse_rows
from ingest.wire.declared import plain

_SOURCE = frozenset(Source.__struct_fields__)
_META = (
    _SOURCE
    | {"op", "deleted", "name", "version", "server_id", "thread", "query", "xmin"}
    | {"rs", "lsid", "txnNumber", "wallTime"}  # MongoDB's
    | {"commit_physical_time"}  # TiCDC's Avro, whose prefix is _tidb_
)
_TRANSACTION = {"transaction_id", "transaction_total_order", "transaction_data_collection_order"}
_NUMBERS = frozenset(
    """
    ts_ms ts_us ts_ns pos row txId lsn scn commit_scn ssn txSeq event_serial_no ord commit_ts
    mod_number ts_sec ts_usec sec
    """.split()
)
_ID = "_id"
_DELETED = "__deleted"
"""The transformation's own field, which `add.fields.prefix` does not change."""
_HEADER = "__"
"""The default of `add.headers.prefix`."""
_SENT = ("ts_ms", "ts_us", "ts_ns")
OPERATION = _HEADER + "op"
"""The header in which a row, or an empty message, names its operation."""
TOPIC_NAMES = ("none", "table", "db.table", "schema.table", "db.schema.table")


class Flattened:
    """Decodes flattened rows with one prefix; the table is named by the row, else by the topic.

    `names`: the names by which a row shows that it is flattened.
    """

    def __init__(self, options: FormatOptions, rows: Rows) -> None:
        prefix = options.options.get("prefix")
        self._prefix = "__" if prefix is None else str(prefix)
        added = options.options.get("add_fields") or (() if self._prefix else ("op",))
        self._own_names = dict(_named(field, self._prefix) for field in added)
        marks = {name for name, word in self._own_names.items() if word == "op"}
        if not self._own_names:
            marks = {self._prefix + "op", self._prefix + "deleted"}
        self.names = frozenset((*marks, _DELETED))
        self._marks = tuple(f'{mark}"'.encode() for mark in sorted(self.names))
        self._rest = bool(options.options.get("flattened"))
        self._deletes = options.options.get("tombstone") == "delete"
        named = options.options.get("topic_names") or "db.table"
        self._places = () if named == "none" else tuple(str(named).split("."))
        self._rows = rows

    def says(self, top: Mapping[str, Any]) -> bool:
        """Whether a payload itself says that it is a flattened row, whatever its columns are.

        Without a prefix, an envelope has an `op` too.
        """
        if self.names.isdisjoint(top):
            return False
        return self._prefix != "" or "source" not in top or not ("after" in top or "before" in top)

    def admits(self, message: Message) -> bool:
        """Whether a payload that is nothing else, and does not say so, is a flattened row: by the
        option, or because the headers name its operation."""
        return self._rest or any(name == OPERATION for name, _ in message.headers or ())

    def may_say(self, value: bytes) -> bool:
        """A quick test that is true for every message for which `says` is true."""
        return any(mark in value for mark in self._marks)

    def event(self, raw: bytes, block: Block, message: Message, *, warnings: list[str]) -> Event:
        """The change of one flattened row."""
        image = jsontext.image(raw, warnings, marked=True)
        if image is None:
            raise DecodeError(Code.NO_IMAGE, "expected a flattened row, got an empty object")
        inside, process = self._envelope(image, message)
        word, deleted = inside.get("op"), inside.get("deleted")
        op = self._operation(word, deleted)
        op_raw = str(word) if word is not None else None
        heading = self._heading(
            op, op_raw, inside, process=process, message=message, warnings=warnings
        )
        if op == "truncate":
            refuse_rows(str(word), image)
            return plain_event(heading)
        if not image and op != "delete":
            raise DecodeError(
                Code.NO_IMAGE, f"expected columns beside {self._prefix}op and its like, got none"
            )
        row = Image(image, raw) if image else NO_IMAGE
        of_document = _is_document(image, message)
        event = self._rows.change(
            heading,
            before=row if op == "delete" else NO_IMAGE,
            after=NO_IMAGE if op == "delete" else row,
            columns=self._rows.columns(heading, block, block.columns_of_row(self._word)),
            message=message,
        )
        if of_document and event.key_columns == ("id",):
            # MongoDB's key has the document's _id under this name.
            event.key_columns, event.key = (_ID,), None
            if event.before is not None and len(event.before) == 1:
                event.before_image = "key"
            warnings[:] = [code for code in warnings if code != Code.KEY_NOT_IN_IMAGE]
        return event

    def _operation(self, word: Any, deleted: Any) -> str:
        """A row's operation, by its field for the operation and by `__deleted`; a field that is
        None says nothing."""
        op = OPS.get(str(word)) if word is not None else "update"
        if op is None or op == "other":
            raise DecodeError(
                Code.UNKNOWN_OP, f"expected {self._prefix}op of c u d r t, got {str(word)[:40]}"
            )
        if deleted is not None:
            gone = _truth(deleted)
            if word is not None and gone != (op == "delete"):
                raise DecodeError(
                    Code.CONTRADICTION,
                    f"expected {_DELETED} to say what {self._prefix}op says, got "
                    f"{str(deleted)[:40]} and {str(word)[:40]}; the message contradicts itself, so "
                    "nothing of it is applied",
                )
            op = "delete" if gone else op
        return op

    def tombstone(self, message: Message, warnings: list[str]) -> Event:
        """A null value: the delete of the message key's row, if the headers say so, and always with
        `tombstone: delete`. Raises empty_value if no key names the row."""
        inside, process = self._envelope({}, message)
        by_header = OPS.get(str(inside.get("op"))) == "delete"
        if not (self._deletes or by_header):
            return Event(kind="control", op="other", op_raw="tombstone", warnings=warnings)
        if not message.key:
            why = "its headers say so" if by_header else "options.tombstone is delete"
            raise DecodeError(
                Code.EMPTY_VALUE,
                f"expected the key of the row that a message without a value deletes ({why}), got "
                "none",
            )
        op_raw = str(inside["op"]) if by_header else "tombstone"
        heading = self._heading(
            "delete", op_raw, inside, process=process, message=message, warnings=warnings
        )
        return self._rows.change(
            heading,
            before=NO_IMAGE,
            after=NO_IMAGE,
            columns=self._rows.columns(heading, self._rows.schemas.block(b""), ()),
            message=message,
        )

    def _heading(
        self,
        op: str,
        op_raw: str | None,
        inside: dict[str, Any],
        *,
        process: dict[str, Any],
        message: Message,
        warnings: list[str],
    ) -> Heading:
        """The heading of a row, made of the envelope's fields that it has (`_envelope`)."""
        source = _source(inside)
        return Heading(
            op,
            op_raw=op_raw,
            source=source,
            names=self._names(source, message),
            sent_time=sent_micros(Source(**process), warnings),
            warnings=warnings,
            transaction=Transaction(id=inside.get("transaction_id")),
        )

    def _word(self, name: str) -> str | None:
        """The envelope's field that a prefixed column holds, `source_` aside; None: a column."""
        if name == _DELETED:
            return "deleted"
        if self._own_names:
            return self._own_names.get(name)
        if not name.startswith(self._prefix):
            return None
        word = name[len(self._prefix) :]
        return word if _is_envelope(word) else None

    def _envelope(
        self, image: dict[str, Any], message: Message
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Takes the envelope's fields out of the row, and those that the row lacks from the
        headers: first the fields of `source`, then those of the processing."""
        inside: dict[str, Any] = {}
        process: dict[str, Any] = {}
        fields = {
            word: _header_value(value)
            for name, value in message.headers or ()
            if name.startswith(_HEADER) and _is_envelope(word := name.removeprefix(_HEADER))
        }
        for name in list(image):
            if (field := self._word(name)) is not None:
                fields[field] = image.pop(name)
        for word, value in fields.items():
            if word in _SENT:
                process[word] = value
            elif word == "commit_physical_time":
                inside["ts_ms"] = value
            else:
                inside[word.removeprefix("source_")] = value
        return inside, process

    def _names(self, source: Source, message: Message) -> TableName:
        """Database, schema and table as the row names them, else as the topic's last parts do."""
        parts = message.topic.split(".")
        places = self._places
        if "/" in message.topic or len(parts) <= len(places):
            places = ()
        by_topic = dict(zip(places, parts[len(parts) - len(places) :], strict=True))
        return (
            source.db or by_topic.get("db"),
            source.schema or by_topic.get("schema"),
            source.table or source.collection or by_topic.get("table"),
        )


def _is_envelope(word: str) -> bool:
    return word.removeprefix("source_") in _META or word in _TRANSACTION


def _header_value(header: bytes | None) -> Any:
    """The value of a header: text as Connect's own converter writes it, or JSON, with its schema or
    without. Source: https://kafka.apache.org/40/javadoc/org/apache/kafka/connect/storage/SimpleHeaderConverter.html
    """
    if header is None:
        return None
    text = header.decode("utf-8", "replace")
    if text[:1] not in ("{", '"'):
        return None if text == "null" else text
    try:
        value = msgspec.json.decode(header)
    except jsontext.UNREADABLE:
        return text
    return value.get("payload") if isinstance(value, dict) else value


def _truth(deleted: Any) -> bool:
    """What `__deleted` says, a boolean or its text."""
    text = str(deleted).lower()
    if text not in ("true", "false"):
        raise DecodeError(
            Code.UNKNOWN_OP, f"expected {_DELETED} to be true or false, got {str(deleted)[:40]}"
        )
    return text == "true"


def _is_document(image: Mapping[str, Any], message: Message) -> bool:
    """Whether a row is a document of MongoDB's, whose key has the document's `_id` under the name
    id; if the row has a field `id` too, the values tell which of the two the key means."""
    if _ID not in image:
        return False
    key = document_key(message.key) if "id" in image else None
    return "id" not in image or (key is not None and key[_ID] == plain(image[_ID]))


def _named(field: str, prefix: str) -> tuple[str, str]:
    """The column that holds a field of `add.fields`, and the envelope's word for it:
    `source.ts_ms:AT` with the prefix `__` is `__AT`, and `source_ts_ms`."""
    path, _, own = field.strip().partition(":")
    struct, dot, bare = path.rpartition(".")
    word = f"{struct}_{bare}" if dot else bare
    return prefix + (own.strip() or word), word


def _source(fields: Mapping[str, Any]) -> Source:
    """The `source` block that flattened fields make up; a field that does not fit its type is left
    out."""
    source = Source()
    for name, value in fields.items():
        if name not in _SOURCE or value is None:
            continue
        if name in _NUMBERS:
            fits = value.__class__ is int or value.__class__ is str
        else:
            fits = value.__class__ is str or (name == "snapshot" and value.__class__ is bool)
        if fits:
            setattr(source, name, value)
    return source
