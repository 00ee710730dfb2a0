"""Changes as typed rows, for all cases in which SQL alone makes rows of a target from them.

Keys and values are typed here, and this is also where it shows what does not fit. Two readings of
changes are separate: the exact fold compares texts (`projection.events`) and types its results
(`states.py`), and history shows every column as it would be typed today, NULL if the text does not
fit (`ingest.sql.history.view`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingest.sql import casts
from ingest.sql.projection import Projection
from ingest.sql.quoting import sql_text

SURPRISE = "ingest: this batch needs the exact fold"
"""Raised inside Spark if a batch is not as simple as its statistics promised."""


def surprised(where: str, value: str) -> str:
    """SQL of a value that raises SURPRISE where `where` is true."""
    return f"IF({where}, raise_error({sql_text(SURPRISE)}), {value})"


class TypedChanges(NamedTuple):
    """Named relations, for `query`. The last, `typed`, has for each change `pos`, `gone` (it is a
    delete), `event_time`, the key columns `_k0`…, the columns `sets` by their slots, and what else
    was asked for.

    `keyless`, `unfit`: SQL that is true for rows of it in which a key column is NULL, or a value
    does not fit.
    """

    relations: dict[str, str]
    keyless: str
    unfit: str


def typed_changes(
    projection: Projection,
    changes: str,
    *,
    sets: Sequence[str],
    image: Sequence[str] | None = None,
    by_own_key: bool = True,
    beside: Mapping[str, str] | None = None,
) -> TypedChanges:
    """Changes (SQL of silver's rows, as the target sees them) whose images have the columns `sets`.

    `image`: the one list of names that all images have, in their order; then values are taken by
    place instead of being looked up. `by_own_key`: if silver knows the key, a change without one
    has none; otherwise its images are searched too. `beside`: further columns, by their SQL on a
    row of silver.
    """
    slots, keys = projection.slots, projection.key_slots
    own = projection.native and by_own_key
    typed_keys = [
        casts.typed(
            projection.text("key", name) if own else projection.key_value(name),
            projection.columns[name],
            projection.zone,
        )
        + f" AS {key}"
        for name, key in keys.items()
    ]
    others = [f"{sql} AS {name}" for name, sql in (beside or {}).items()]
    texts = {name: f"text_{slots[name]}" for name in sets}
    sent = [f"{_sent(projection, name, image)} AS {texts[name]}" for name in sets]
    values = [
        f"{casts.typed(texts[name], projection.columns[name], projection.zone)} AS {slots[name]}"
        for name in sets
    ]
    unfit = [
        casts.unfit(texts[name], slots[name], projection.columns[name])
        for name in sets
        if projection.columns[name] != "string"
    ]
    first = ["pos", "op = 'delete' AS gone", "event_time", *typed_keys, *others]
    plain = ["pos", "gone", "event_time", *keys.values(), *(beside or ())]
    return TypedChanges(
        {
            "keyed": f"SELECT {', '.join(first)}, after, map_values(after) AS texts "
            f"FROM ({changes})",
            # The text is used twice, for the value and to tell whether it fits, but made only once.
            "spelled": f"SELECT {', '.join([*plain, *sent])} FROM keyed",
            "typed": f"SELECT {', '.join([*plain, *texts.values(), *values])} FROM spelled",
        },
        keyless=" OR ".join(f"{key} IS NULL" for key in keys.values()) or "false",
        unfit=f"NOT gone AND ({' OR '.join(unfit) or 'false'})",
    )


def _sent(projection: Projection, name: str, image: Sequence[str] | None) -> str:
    """SQL of the text that was sent for a column, by its place in the image if that is known."""
    spellings = projection.spellings.get(name, (name,))
    if image is not None and len(spellings) == 1 and spellings[0] in image:
        return f"texts[{image.index(spellings[0])}]"
    return projection.text("after", name)
