"""Where a row of silver came from: what tells the rows of one source apart, as SQL.

The epoch is part of it (semantics.md, 76): a topic that was made anew begins at offset 0 again.
"""

from __future__ import annotations

from collections.abc import Sequence

MESSAGE = ("epoch", "topic", "partition", "offset")
"""The columns that name a message of a source."""
DELIVERY = (*MESSAGE, "row")
"""The columns that name one row of a message: what was delivered."""
MESSAGE_TYPES = "epoch bigint, topic string, `partition` int, offset bigint"
DELIVERY_TYPES = f"{MESSAGE_TYPES}, `row` int"


def origin(alias: str = "", names: Sequence[str] = DELIVERY) -> str:
    """The columns that say where a row came from, those of `alias` where it is given."""
    return ", ".join(f"{alias}{'.' if alias else ''}`{name}`" for name in names)


def same(one: str, other: str, names: Sequence[str] = DELIVERY) -> str:
    """True where two relations mean the same delivery."""
    return " AND ".join(f"{one}.`{name}` = {other}.`{name}`" for name in names)
