"""How a message is framed before its Avro datum: the framings that are read, and those refused.

| framing | before the datum | |
|---|---|---|
| Confluent's | a zero byte, the schema's id in four | `confluent`; of JSON `framed_json` |
| Avro's single object | C3 01, the schema's fingerprint in eight | `single_object` |
| Apicurio's | a zero byte, an id in eight | `refused` |
| Apicurio's and Confluent's with headers | nothing: the id is in a header | `id_in_header` |
| AWS Glue's | 03, whether it is compressed, the schema version's id in sixteen | `refused` |

A framing that is to be read is a function here that says where the datum begins; a format asks it.
What follows Confluent's frame may be no Avro at all (`other_language`).

Sources: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
(wire format); https://avro.apache.org/docs/1.12.0/specification/#single-object-encoding;
https://github.com/Apicurio/apicurio-registry, Legacy8ByteIdHandler and the headers of
KafkaSerdeHeaders; https://github.com/awslabs/aws-glue-schema-registry,
AWSSchemaRegistryConstants (header and compression bytes).
"""

from __future__ import annotations

import re

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values.jsontext import UNREADABLE, excerpt

_CONFLUENT = 5
_LIKELY_IDS = range(1, 2**24)
"""A frame is recognised by these ids: a registry counts from 1, and few have given out so many."""
_EIGHT = 9
_GLUE, _GLUE_LENGTH = (b"\x03\x00", b"\x03\x05"), 18
_SINGLE_OBJECT, _SINGLE_OBJECT_LENGTH = b"\xc3\x01", 10
_SPELT = (
    (b"AAA", re.compile(rb"[A-Za-z0-9+/\s]+=*\s*"), "base64"),
    (b"0000", re.compile(rb"[0-9A-Fa-f\s]+"), "hex"),
)
"""How a zero byte and a schema's id begin if bytes are written as text."""
_APICURIOS = ("apicurio.value.globalId", "apicurio.value.contentId")
_CONFLUENTS = "__value_schema_id"
_WRITE_AS_CONFLUENT = "set its apicurio.registry.as-confluent to true"
WRITE_IN_MESSAGE = (
    "set the converter's apicurio.registry.headers.enabled to false and "
    "apicurio.registry.as-confluent to true"
)
"""What to do about Apicurio's ids in headers."""
_PREFIX = (
    "set the converter's value.schema.id.serializer to "
    "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
)
OTHER_LANGUAGES = (
    "Avro alone is decoded: if the messages are Protobuf, set the connector's value.converter to "
    "AvroConverter"
)
"""What to know of bytes behind a schema's id, which do not show their language."""


def confluent(data: bytes) -> tuple[int, int] | None:
    """The schema's id of bytes in Confluent's framing and where the datum begins; else None."""
    if data[:1] != b"\0" or len(data) < _CONFLUENT:
        return None
    return int.from_bytes(data[1:_CONFLUENT], "big"), _CONFLUENT


def looks_confluent(data: bytes) -> bool:
    """Whether bytes are in Confluent's framing, by a likely id and something behind it."""
    frame = confluent(data)
    return frame is not None and frame[0] in _LIKELY_IDS and len(data) > frame[1]


def single_object(data: bytes) -> int | None:
    """Where the datum of Avro's single-object encoding begins; None for other bytes."""
    return _SINGLE_OBJECT_LENGTH if data.startswith(_SINGLE_OBJECT) else None


def not_confluent(data: bytes) -> DecodeError:
    """The error for bytes that should be in Confluent's framing."""
    found = refused(data)
    return DecodeError(
        Code.BAD_AVRO,
        "expected a zero byte and four bytes of the schema's id, "
        f"got {excerpt(data)}" + (f"; {found}" if found else ""),
    )


def refused(data: bytes) -> str | None:
    """The framing of bytes if it is one that is not read, and what to do about it."""
    if data[:2] in _GLUE and len(data) > _GLUE_LENGTH:
        return (
            "it looks framed by the AWS Glue schema registry, which is not read: use a registry of "
            "Confluent's protocol, or Debezium's JsonConverter"
        )
    if _has_eight(data):
        return (
            "it looks framed by the ids of eight bytes that Apicurio's converter writes, which are "
            f"not read: {_WRITE_AS_CONFLUENT}"
        )
    for start, letters, name in _SPELT:
        if data.startswith(start) and letters.fullmatch(data):
            return (
                f"it looks like {name}: send the bytes themselves; "
                f"in files, set framing: {name}_lines"
            )
    return None


def framed_json(data: bytes) -> bytes | None:
    """The JSON behind a schema's id, as Confluent's JsonSchemaConverter writes it; else None."""
    if data[:1] != b"\0" or data[_CONFLUENT : _CONFLUENT + 1] != b"{":
        return None
    body = data[_CONFLUENT:]
    if body.rstrip()[-1:] != b"}":
        return None
    try:
        msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return None
    return body


def other_language(data: bytes) -> str | None:
    """What bytes are that begin like Confluent's framing if no Avro of that id follows."""
    if framed_json(data) is not None:
        return (
            "expected Avro behind the schema's id, got JSON, framed for JSON Schema: set the "
            "source's format to debezium, which reads it"
        )
    if _has_eight(data):
        return (
            "expected a schema's id of four bytes, got 0, as the ids of eight bytes begin that "
            f"Apicurio's converter writes: {_WRITE_AS_CONFLUENT}"
        )
    return None


def id_in_header(name: str) -> str | None:
    """Whose header it is if it has the schema's id, so that the message has no frame, and what to
    do; None for other names."""
    if name == _CONFLUENTS:
        return f"a header of Confluent's: {_PREFIX}"
    return f"a header of Apicurio's: {WRITE_IN_MESSAGE}" if name.startswith(_APICURIOS) else None


def _has_eight(data: bytes) -> bool:
    """Whether an id of eight bytes, below 2**32, stands before a datum."""
    return data[:_CONFLUENT] == bytes(_CONFLUENT) and len(data) > _EIGHT
