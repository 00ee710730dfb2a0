"""Spark's column types as Arrow's, for the rows that Spark's workers return."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<struct<name:string,source_type:string,type:string>>": pa.list_(
        pa.struct([("name", pa.string()), ("source_type", pa.string()), ("type", pa.string())])
    ),
}


def arrow_schema(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    """The Arrow schema of columns, each a name and one of the Spark types that are used here."""
    return pa.schema([(name, _TYPES[type_]) for name, type_ in columns])
