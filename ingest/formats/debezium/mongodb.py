"""MongoDB's documents: `after` is one text of extended JSON, whose top-level fields are the
columns.

- **Values.** `_id` is the key. Wrapped scalars (`{"$numberLong": "7"}`, `{"$oid": …}`, `{"$date":
  …}`) become their canonical text, and `$undefined` is null. NaN and infinite doubles, which the
  connector writes although JSON has none, are read as `$numberDouble`. Nested documents and arrays
  stay as sent, except for an `_id`, which has the same text in documents and in keys.
- **Updates.** An update may come with the whole document, or only with what it changed
  (`updateDescription`): then the columns that it names are set, and those that it removed are null.
  A change inside a nested document or array does not say what the whole column became, so it needs
  the document (`capture.mode=change_streams_update_full`). Connectors before 2.0 send the oplog's
  own `patch` with an update, which is the new document, or says what was set and unset.
- **Removed fields.** A field that the document had and has no more is null if anything tells of it:
  `removedFields`, the document before, or the source's `columns:`.

Source: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.debezium.envelope import Inner, Source, sent_micros
from ingest.formats.debezium.events import Heading, row_event
from ingest.formats.debezium.schema import Schemas
from ingest.names import lacking
from ingest.values import canonical, jsontext
from ingest.wire.contract import Message, TableName
from ingest.wire.contradictions import refuse_after
from ingest.wire.declared import plain

_ID = "_id"
_TEXT = msgspec.json.Decoder(str)
_ANY = jsontext.decoder(Any)


class _Fraction(str):
    """A number with a point, as it was written."""


_EXACT = msgspec.json.Decoder(Any, float_hook=_Fraction)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRICT_BINARY = {"$binary", "$type"}  # extended JSON of version 1
_WRAPPED = {
    "$oid",
    "$numberLong",
    "$numberInt",
    "$numberDouble",
    "$numberDecimal",
    "$uuid",
    "$symbol",
}


class _Description(msgspec.Struct, gc=False):
    """`updateDescription`: what an update changed. Names with a dot lead into nested documents."""

    removedFields: list[str] | None = None
    updatedFields: msgspec.Raw = msgspec.Raw()
    truncatedArrays: list[Any] | None = None


_DESCRIPTION = msgspec.json.Decoder(_Description)


def document_event(
    inner: Inner,
    op: str,
    source: Source,
    *,
    message: Message,
    schemas: Schemas,
    warnings: list[str],
) -> Event:
    """One change of a document. Raises unsupported for an update of a part of a column."""
    names: TableName = (source.db or None, source.schema or None, source.collection)
    columns = schemas.columns(schemas.block(b""), (), names, family="mongodb")
    before = document(inner.before, warnings) if op in ("update", "delete") else None
    key = None
    if before is None or _ID not in before:
        key = document_key(message.key) or _filtered(inner.filter)
    after, changed = _document_after(inner, op, key, warnings=warnings)
    whole = after is not None
    if after is not None:
        # a field that the document does not have is NULL in a table
        declared = [column.name for column in columns.types.columns] if columns.types else []
        for name in (*changed, *(before or ())):
            after.setdefault(name)
        after |= dict.fromkeys(lacking(declared, after))
    elif changed and before is not None:
        after, whole = {**before, **changed}, True
    elif changed:
        after = {**(key or {}), **changed}
        warnings.append(Code.PARTIAL_IMAGE.value)
    if op != "delete" and (after is None or _ID not in after):
        text = "expected the document in after, or what changed in updateDescription and the "
        raise DecodeError(Code.NO_IMAGE, f"{text}document's _id in the message key, got neither")
    sent = sent_micros(inner, warnings)
    heading = Heading(op, str(inner.op), source, names, sent, warnings, inner.transaction)
    event = row_event(heading, key_columns=(_ID,), types=columns.types)
    event.before, event.before_image = before, "full" if before is not None else None
    event.after, event.after_image = after, _image(after, whole=whole)
    if after is None:
        if before is None or _ID not in before:
            event.key = key
        if event.key is None and before is None:
            raise DecodeError(
                Code.NO_IMAGE, "expected a document or a message key of the delete, got none"
            )
    if not columns.names.issuperset((*(before or ()), *(after or ()))):
        warnings.append(Code.UNTYPED.value)
    return event


def _document_after(
    inner: Inner, op: str, key: Row | None, *, warnings: list[str]
) -> tuple[Row | None, Row]:
    """The document after the change, and what an update changed; a delete has neither.

    Raises image_count, unsupported.
    """
    after = document(inner.after, warnings)
    if op == "delete":
        refuse_after(op, after)
        return None, {}
    if op != "update":
        return after, {}
    changed = _changed(inner.updateDescription, warnings, whole=after is not None)
    if after is None and not changed:
        return _patched(inner.patch, key, warnings)
    return after, changed


def _image(after: Row | None, *, whole: bool) -> str | None:
    if after is None:
        return None
    return "full" if whole else "partial"


def _changed(raw: msgspec.Raw, warnings: list[str], *, whole: bool) -> Row:
    """The columns that an update set and, as null, those that it removed.

    `whole`: the document itself came too, so it does not matter if only parts of columns changed.
    Otherwise raises unsupported for these, since the whole column's value is not known.
    """
    text = bytes(raw)
    if not text or text == b"null":
        return {}
    description = _DESCRIPTION.decode(text)
    removed = description.removedFields or []
    if whole:
        return {name: None for name in removed if "." not in name}
    changed = document(description.updatedFields, warnings) or {}
    if description.truncatedArrays or any("." in name for name in (*removed, *changed)):
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected whole columns in updateDescription, got a part of one: "
            "set capture.mode=change_streams_update_full in the connector",
        )
    return {**changed, **dict.fromkeys(removed)}


def _patched(raw: msgspec.Raw, key: Row | None, warnings: list[str]) -> tuple[Row | None, Row]:
    """The document of a replacement, or the columns that an update set, from `patch`.

    The oplog writes an update as `$set` and `$unset`, and from MongoDB 5 on as `diff`: `u` and `i`
    are set, `d` is unset, `s…` are changes within a column. Raises unsupported if a part of a
    column changed.
    """
    text = bytes(raw)
    if not text or text == b"null":
        return None, {}
    try:
        patch = _MEMBERS.decode(_json(_TEXT.decode(text)))
        version = patch.pop("$v", None)
        of_set: tuple[str, ...] = ("$set",)
        unset = "$unset"
        if version is not None and patch.keys() == {"diff"}:
            patch, of_set, unset = _MEMBERS.decode(patch["diff"]), ("u", "i"), "d"
    except msgspec.MsgspecError as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected an update of extended JSON as text in patch, {error}"
        ) from None
    if patch and of_set == ("$set",) and not any(name.startswith("$") for name in patch):
        return {**(key or {}), **(_row(msgspec.json.encode(patch), warnings) or {})}, {}
    changed: Row = {}
    for name in of_set:
        changed.update(_row(bytes(patch.pop(name, b"")), warnings) or {})
    changed.update(dict.fromkeys(_row(bytes(patch.pop(unset, b"")), warnings) or {}))
    if patch or any("." in name for name in changed):
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected whole columns in patch, got a part of one: use a connector from 2.0 on, with "
            "capture.mode=change_streams_update_full",
        )
    return None, changed


def _filtered(raw: msgspec.Raw) -> Row | None:
    """The `_id` in `filter`, which connectors before 2.0 send with an update."""
    found = document(raw, [])
    return {_ID: found[_ID]} if found is not None and _ID in found else None


def document(raw: msgspec.Raw, warnings: list[str]) -> Row | None:
    """The row of a document sent as JSON text; None if there is none."""
    text = bytes(raw)
    if text == b"null" or not text:
        return None
    try:
        return _row(_json(_TEXT.decode(text)), warnings)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected a document of extended JSON as text, {error}"
        ) from None


def _json(text: str) -> bytes:
    """A document as JSON, with its NaN and infinities wrapped as in extended JSON."""
    if "NaN" in text or "Infinity" in text:
        text = _NO_NUMBERS.sub(_wrapped, text)
    return text.encode()


def _wrapped(token: re.Match[str]) -> str:
    return token[0] if token[0][0] == '"' else f'{{"$numberDouble": "{token[0]}"}}'


_NUMBERS = {"$numberLong", "$numberInt", "$numberDouble"}
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_NO_NUMBERS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|-?(?:NaN|Infinity)', re.DOTALL)
"""Texts, which are passed over to the end if nothing closes them, and what the driver writes for
doubles that are no numbers."""


def _row(sent: bytes, warnings: list[str]) -> Row | None:
    """The row of a document in extended JSON; None if there is none."""
    image = jsontext.image(sent, warnings) if sent else None
    if image is None:
        return None
    members = jsontext.members(sent)
    row = {name: _value(value, members[name]) for name, value in image.items()}
    if image.get(_ID).__class__ is dict:
        row[_ID] = _id(image[_ID], members[_ID])
    return row


def document_key(raw: bytes | None) -> Row | None:
    """The key `{"id": "<extended JSON>"}` as `_id`; None for any other key."""
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
            return {_ID: _id(_ANY.decode(sent), msgspec.Raw(sent))}
        except msgspec.MsgspecError:
            return {_ID: text}
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _id(value: Any, raw: msgspec.Raw) -> str | None:
    """The text of an `_id`; if it is a document, it has one text, although documents hold it in
    strict extended JSON and keys in relaxed."""
    document = value.__class__ is dict and value.keys() != {"$undefined"}
    if not document or _scalar(value) is not None:
        return _value(value, raw)
    return msgspec.json.encode(_relaxed(_EXACT.decode(raw))).decode()


def _relaxed(value: Any) -> Any:
    """A value of either kind of extended JSON in relaxed JSON."""
    if value.__class__ is list:
        return [_relaxed(item) for item in value]
    if isinstance(value, _Fraction):
        return msgspec.Raw(value.encode())
    if value.__class__ is not dict:
        return value
    text = _scalar(value)
    if text is None:
        return {name: _relaxed(inner) for name, inner in value.items()}
    word = next(iter(value))
    if word in _NUMBERS and _PLAIN_NUMBER.fullmatch(text):
        return msgspec.Raw(text.encode())
    return {word: text}


def _value(value: Any, raw: msgspec.Raw) -> str | None:
    kind = value.__class__
    if value is None or kind is str:
        return value if value is None else str(value)
    if kind is dict and value.keys() == {"$undefined"}:
        return None
    if kind is dict:
        text = _scalar(value)
        return text if text is not None else bytes(raw).decode()
    return bytes(raw).decode() if kind is list else plain(value)


def _ordinal(inner: Mapping[str, Any]) -> str | None:
    """A BSON timestamp as `seconds.ordinal`, the ordinal padded, so that the texts sort as the
    timestamps do."""
    second, number = inner.get("t"), inner.get("i")
    if second.__class__ is not int or number.__class__ is not int:
        return None
    return f"{second}.{str(number).rjust(10, '0')}"


def _scalar(value: Mapping[str, Any]) -> str | None:
    """The text of a wrapped scalar; None if the value is a document of its own."""
    if value.keys() == _STRICT_BINARY and isinstance(value["$binary"], str):
        return str(value["$binary"])
    if len(value) != 1:
        return None
    ((word, inner),) = value.items()
    if word == "$date":
        if isinstance(inner, Mapping):
            inner = inner.get("$numberLong")
        if inner is None:
            return None
        text = plain(inner)
        if text.removeprefix("-").isdecimal() and len(text) <= 20:
            try:
                return canonical.instant_of(int(text), 1000)
            except DecodeError:
                return None
        return canonical.instant_text(text, "UTC", [])
    if word == "$binary" and isinstance(inner, Mapping):
        return str(inner["base64"]) if isinstance(inner.get("base64"), str) else None
    if word == "$timestamp" and isinstance(inner, Mapping):
        return _ordinal(inner)
    if word == "$code" and isinstance(inner, str):
        return inner
    if word == "$numberDecimal" and isinstance(inner, str):
        try:
            return canonical.decimal_text(inner)
        except DecodeError:  # of thousands of zeros
            return inner
    if word in _WRAPPED and inner is not None and not isinstance(inner, dict | list):
        return plain(inner)
    return None
