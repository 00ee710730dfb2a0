"""PostgreSQL's arrays: the elements become canonical text as the values of a column do.

An array stays JSON. Elements that Debezium encodes by a semantic type (days, microseconds, packed
decimals) are written as JSON text or null; all others are as sent.
Source: https://debezium.io/documentation/reference/3.6/connectors/postgresql.html (array types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ingest.formats.columns import Convert
from ingest.formats.debezium_values import Nested

ReadArray = Callable[[list[Any], list[str]], str | None]
"""The elements, warnings -> canonical text; None where an array stays as sent."""


def array_reader(convert: Convert | None, nested: Nested | None) -> ReadArray:
    """The reader of arrays whose elements are read by `convert`, or by `nested` if JSON objects."""

    def element(value: Any, warnings: list[str]) -> str | None:
        if value is None:
            return None
        if value.__class__ is dict:
            text = nested(value) if nested is not None else None
        else:
            text = convert(value, warnings) if convert is not None else None
        if text is None:
            raise _AsSent
        return text

    def read(values: list[Any], warnings: list[str]) -> str | None:
        try:
            texts = [element(value, warnings) for value in values]
        except _AsSent:
            return None
        return msgspec.json.encode(texts).decode()

    return read


class _AsSent(Exception):
    """An element has no text of its own."""
