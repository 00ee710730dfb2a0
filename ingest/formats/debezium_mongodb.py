"""MongoDB's documents: `after` is one text of extended JSON, its top-level fields are the columns.

`_id` is the key. Wrapped scalars (`{"$numberLong": "7"}`, `{"$oid": …}`, `{"$date": …}`) become
their canonical text; nested documents and arrays stay as sent. An update without the whole document
(`updateDescription` or `patch` alone) is no row image and is not supported: let the connector look
it up, `capture.mode=change_streams_update_full`.
Source: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest import jsontext, values
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.columns import plain
from ingest.formats.debezium_envelope import Inner, Source, micros
from ingest.formats.debezium_plain import plain_event
from ingest.formats.format import Message

_ID = "_id"
_TEXT = msgspec.json.Decoder(str)
_ANY = jsontext.decoder(Any)
_WRAPPED = {"$oid", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal", "$uuid"} | {
    "$symbol",
}


def document_event(
    inner: Inner, op: str, source: Source, message: Message, warnings: list[str]
) -> Event:
    """One change of a document. Raises unsupported for an update without the whole document."""
    before = document(inner.before, warnings) if op in ("update", "delete") else None
    after = document(inner.after, warnings) if op != "delete" else None
    if after is None and op != "delete":
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected the whole document in after, got none: "
            "set capture.mode=change_streams_update_full in the connector",
        )
    event = plain_event(
        op,
        op_raw=str(inner.op),
        source=source,
        names=(source.db or None, source.schema or None, source.collection),
        sent_time=micros(inner),
        warnings=warnings,
        transaction=inner.transaction,
    )
    event.snapshot = event.snapshot or op == "snapshot"
    event.key_columns = (_ID,)
    event.before, event.before_image = before, "full" if before is not None else None
    event.after, event.after_image = after, "full" if after is not None else None
    if op == "delete" and (before is None or _ID not in before):
        event.key = document_key(message.key)
        if event.key is None and before is None:
            raise DecodeError(
                Code.NO_IMAGE, "expected a document or a message key of the delete, got none"
            )
    warnings.append(Code.UNTYPED.value)
    return event


def document(raw: msgspec.Raw, warnings: list[str]) -> Row | None:
    """The row of a document sent as JSON text; None where there is none."""
    text = bytes(raw)
    if text == b"null" or not text:
        return None
    try:
        inner = _TEXT.decode(text).encode()
        image = jsontext.image(inner, warnings)
        if image is None:
            return None
        sent = jsontext.members(inner)
        return {name: _value(value, sent[name]) for name, value in image.items()}
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected a document of extended JSON as text, {error}"
        ) from None


def document_key(raw: bytes | None) -> Row | None:
    """The key `{"id": "<extended JSON>"}` as `_id`; None where it is something else."""
    if not raw:
        return None
    try:
        key: Any = _ANY.decode(raw)
        if isinstance(key, dict) and "payload" in key:
            key = key["payload"]
        text = key["id"]
        if not isinstance(text, str):
            return {_ID: plain(text)}
        sent = text.encode()
        try:
            return {_ID: _value(_ANY.decode(sent), msgspec.Raw(sent))}
        except msgspec.MsgspecError:
            return {_ID: text}
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _value(value: Any, raw: msgspec.Raw) -> str | None:
    kind = value.__class__
    if value is None or kind is str:
        return value if value is None else str(value)
    if kind is dict:
        text = _scalar(value)
        return text if text is not None else bytes(raw).decode()
    return bytes(raw).decode() if kind is list else plain(value)


def _scalar(value: Mapping[str, Any]) -> str | None:
    """The text of a wrapped scalar; None where the value is a document of its own."""
    if len(value) != 1:
        return None
    ((word, inner),) = value.items()
    if word == "$date":
        if isinstance(inner, Mapping):
            inner = inner.get("$numberLong")
        if inner is None:
            return None
        text = plain(inner)
        if text.lstrip("-").isdigit():
            try:
                return values.instant_of(int(text), 1000)
            except DecodeError:
                return None
        return values.instant_text(text, "UTC", [])
    if word == "$binary" and isinstance(inner, Mapping):
        return str(inner["base64"]) if isinstance(inner.get("base64"), str) else None
    if word in _WRAPPED and inner is not None and not isinstance(inner, dict | list):
        return plain(inner)
    return None
