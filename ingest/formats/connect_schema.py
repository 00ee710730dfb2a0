"""Connect's schema as it stands in a message, or as Avro's tells of it."""

from __future__ import annotations

from typing import Any

import msgspec


class Field(msgspec.Struct, gc=False, frozen=True):
    """One field of a Connect schema: a column, or a struct of columns.

    `default` is JSON; `items` says what the elements of an array are.
    """

    type: str = ""
    field: str | None = None
    name: str | None = None
    parameters: dict[str, Any] | None = None
    fields: tuple[Field, ...] | None = None
    items: Field | None = None
    optional: Any = True
    default: msgspec.Raw = msgspec.Raw()
