"""Where a row of silver came from, as SQL: the columns that tell the rows of one source apart.

The epoch is one of them (semantics.md, 76), since a topic that was made anew begins at offset 0
again.
"""

from __future__ import annotations

from collections.abc import Sequence

MESSAGE = ("epoch", "topic", "partition", "offset")
"""The columns that identify a message of a source."""
DELIVERY = (*MESSAGE, "row")
"""The columns that identify one row of a message, a delivery."""
MESSAGE_TYPES = "epoch bigint, topic string, `partition` int, offset bigint"
DELIVERY_TYPES = f"{MESSAGE_TYPES}, `row` int"


def origin(alias: str = "", names: Sequence[str] = DELIVERY) -> str:
    """The columns that say where a row came from, of `alias` if it is given."""
    return ", ".join(f"{alias}{'.' if alias else ''}`{name}`" for name in names)


def same(one: str, other: str, names: Sequence[str] = DELIVERY) -> str:
    """True where two relations mean the same delivery."""
    return " AND ".join(f"{one}.`{name}` = {other}.`{name}`" for name in names)
