"""The envelope of a Debezium row change in Avro, read as the structs that JSON gives too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingest.events import Row
from ingest.formats import avro_reader
from ingest.formats.avro_code import WHOLE, Code, null_branch
from ingest.formats.avro_schema import Type
from ingest.formats.debezium_avro_rows import ReadRow
from ingest.formats.debezium_envelope import Inner, Source, Transaction

ReadEnvelope = Callable[[bytes, int, list[str]], tuple[Inner, Row | None, Row | None, int]]
"""Data, start, warnings -> the envelope without its images, before, after, where it ends."""

_TEXTS = frozenset(("string", "enum"))
_SOURCE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(Source.__struct_fields__, WHOLE | _TEXTS),
    **dict.fromkeys(("connector", "db", "schema", "table", "collection", "sequence"), _TEXTS),
    **dict.fromkeys(("gtid", "file", "rs_id", "lcr_position"), _TEXTS),
    **dict.fromkeys(("change_lsn", "commit_lsn"), _TEXTS),
    "snapshot": _TEXTS | {"boolean"},
}
"""Fields of `source` that events are made of, and the types they may have."""
_IMAGES = ("before", "after")


def is_envelope(record: Type) -> bool:
    """Whether a schema is of row changes with images of columns."""
    op = record.field("op")
    images = [record.field(name) for name in _IMAGES]
    if op is None or op.kind not in _TEXTS:
        return False
    return any(images) and all(image is None or image.kind == "record" for image in images)


def envelope_reader(record: Type, read_row: Mapping[int, ReadRow]) -> ReadEnvelope:
    """The reader of an envelope. `read_row`: by the id of an image's type."""
    code = Code()
    code.add("before = after = op = ts_ms = ts_us = transaction = source = None", 1)
    for field in record.fields:
        name = field.name

        def write(type_: Type, depth: int, name: str = name) -> None:
            if name in _IMAGES:
                read = code.name(read_row[id(type_)])
                code.add(f"{name}, at = {read}(data, at, warnings)", depth)
            elif name == "source" and type_.kind == "record":
                code.call("source", _source_reader(type_), depth)
            elif name == "op" or (name in ("ts_ms", "ts_us") and type_.kind in WHOLE):
                code.scalar(name, type_, depth)
            elif name == "transaction" and type_.kind == "record":
                code.call("transaction", avro_reader.reader(type_), depth)
                code.add(f"transaction = {code.name(_transaction)}(transaction)", depth)
            else:
                code.skip(type_, depth)

        kept = (*_IMAGES, "op", "ts_ms", "ts_us", "transaction", "source")
        code.optional(name if name in kept else "_", field.type, write)
    made = f"{code.name(Inner)}(op=op, source=source, ts_ms=ts_ms, ts_us=ts_us, "
    code.add(f"return {made}transaction=transaction), before, after, at", 1)
    read: ReadEnvelope = code.compiled("data, at, warnings")
    return read


def _transaction(fields: Mapping[str, object]) -> Transaction:
    found = fields.get("id")
    return Transaction(found if isinstance(found, str | int) else None)


def _source_reader(record: Type) -> Callable[[bytes, int], tuple[Source, int]]:
    code = Code()
    kept = []
    for field in record.fields:
        name = field.name
        null = null_branch(field.type)
        inner = field.type if null is None else field.type.parts[1 - null]
        reads = inner.kind in _SOURCE.get(name, ())
        if reads:
            kept.append(name)

        def write(type_: Type, depth: int, name: str = name, reads: bool = reads) -> None:
            if reads:
                code.scalar(f"s_{name}", type_, depth)
            else:
                code.skip(type_, depth)

        code.optional(f"s_{name}" if reads else "_", field.type, write)
    given = ", ".join(f"{name}=s_{name}" for name in kept)
    code.add(f"return {code.name(Source)}({given}), at", 1)
    read: Callable[[bytes, int], tuple[Source, int]] = code.compiled("data, at")
    return read
