"""Values that Debezium makes up for columns it was not sent.

Of a row before, PostgreSQL sends what REPLICA IDENTITY says, by default the key. Debezium fills the
rest: with null, with the column's default, or, where the column is required, with its type's zero.
Source: https://debezium.io/documentation/reference/3.6/connectors/postgresql.html (replica
identity); the fallback values of JdbcValueConverters and PostgresValueConverter.
"""

from __future__ import annotations

from ingest import jsontext
from ingest.errors import DecodeError
from ingest.formats.columns import Convert, plain
from ingest.formats.connect_schema import Field
from ingest.formats.debezium_values import Nested

_DBZ, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_ZERO_OF_TYPE: dict[str, tuple[bytes, ...]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (b"0",)),
    **dict.fromkeys(("float", "double", "float32", "float64"), (b"0.0", b"0")),
    "boolean": (b"false",),
    "string": (b'""',),
    "bytes": (b'""',),
    "array": (b"[]",),
    "map": (b"{}",),
}
_ZERO_OF_NAME: dict[str, tuple[bytes, ...]] = {
    _CONNECT + "Decimal": (b'"AA=="', b"0"),
    "io.debezium.data.VariableScaleDecimal": (b'{"scale":0,"value":"AA=="}',),
    "io.debezium.data.Json": (b'"{}"', b'""'),
    _DBZ + "ZonedTimestamp": (b'"1970-01-01T00:00:00Z"',),
    _DBZ + "ZonedTime": (b'"00:00:00Z"',),
    _DBZ + "IsoDate": (b'"1970-01-01Z"',),
    _DBZ + "IsoTime": (b'"00:00:00Z"',),
    _DBZ + "IsoTimestamp": (b'"1970-01-01T00:00:00Z"',),
    _DBZ + "Interval": (b'"P0Y0M0DT0H0M0S"',),
}
_ZERO_IN_TEXT = (b'"0"',)


def invented(
    field: Field, convert: Convert | None, nested: Nested | None, *, number: bool
) -> frozenset[str]:
    """The canonical texts of values, null aside, that a column not sent may come with.

    `number`: the column holds decimals.
    """
    default = bytes(field.default)
    samples: tuple[bytes, ...] = (default,) if default else ()
    if field.optional is False:
        samples += _ZERO_OF_NAME.get(field.name or "") or _ZERO_OF_TYPE.get(field.type, ())
        samples += _ZERO_IN_TEXT if number and field.type == "string" else ()
    found = set()
    for sample in samples:
        image = jsontext.image(b'{"":' + sample + b"}", [], marked=True) or {}
        value = image.get("")
        kind = value.__class__
        if value is None:
            continue
        if kind is dict or kind is list:
            text = nested(value) if nested is not None and kind is dict else None
            found.add(sample.decode() if text is None else text)
            continue
        try:
            read = convert(value, []) if convert is not None else plain(value)
        except DecodeError:
            continue
        if read is not None:
            found.add(read)
    return frozenset(found)
