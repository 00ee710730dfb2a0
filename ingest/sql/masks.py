"""Masks in SQL: silver's rows with something else in place of the values that gold may not have.

Images and keys are masked where they are read, before anything is folded, compared or set aside. So
a target, its history, its rejects and all that is made anew from them hold the same. The secret of
a hash is read from a relation of one row that only the session has (`pad_in` and `pad_out`, the two
pads that HMAC makes of it). So it stands in no statement, and therefore in no plan, log or error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.ddl.changes import Lineage, RenameColumn, ever_called, names_since
from ingest.names import lowered
from ingest.sql.casts import as_text, typed
from ingest.sql.quoting import sql_text

_MAPS = ("before", "after", "key", "key_before")


class Masking(NamedTuple):
    """How a column is masked. `type`: the type by which its values are spelled; `domain`: equal
    values have the same token within one domain; `secret`: the name of the relation with the
    secret."""

    mode: str
    type: str | None
    domain: str
    secret: str


def masked(
    changes: str, masks: Mapping[str, Masking], *, zone: str | None, maps: Iterable[str] = _MAPS
) -> str:
    """SQL of the changes (silver rows) with the columns of `masks` masked in the maps `maps`.
    `masks`: by the names under which images have the columns, matched without case; `zone`: the
    zone of times that name none."""
    if not masks:
        return changes
    maps = tuple(maps)
    secret = next((mask.secret for mask in masks.values() if mask.mode != "null"), None)
    if secret is not None:
        pads = ", ".join(f"(SELECT {pad} FROM {secret}) AS _{pad}" for pad in ("pad_in", "pad_out"))
        changes = f"SELECT *, {pads} FROM ({changes})"
    cases = " ".join(
        f"WHEN {sql_text(name)} THEN {_mask(mask, zone)}"
        for name, mask in {name.lower(): mask for name, mask in masks.items()}.items()
    )
    each = f"(k, v) -> CASE lower(k) {cases} ELSE v END"
    # Worked out once, as `_apart` of `ingest.sql.lineage` explains.
    listed = ", ".join(
        f"IF(spark_partition_id() < 0, NULL, transform_values({name}, {each})) AS {name}"
        for name in maps
    )
    gone = ", ".join((*maps, *(("_pad_in", "_pad_out") if secret is not None else ())))
    return f"SELECT * EXCEPT ({gone}), {listed} FROM ({changes})"


def as_it_was(masks: Mapping[str, Masking], renames: Sequence[RenameColumn]) -> dict[str, Masking]:
    """The masks by all names, in lower case, that their columns ever had: for showing rows as they
    came. A name that two columns had is masked for both."""
    names = {name.lower(): mask for name, mask in masks.items()}
    for name, mask in list(names.items()):
        for other in ever_called(name, renames):
            names.setdefault(other, mask)
    return names


def as_it_is(masks: Mapping[str, Masking], lineage: Lineage) -> dict[str, Masking]:
    """The masks by the names under which they are declared, and by those that their columns got
    since."""
    names = dict(masks)
    declared = lowered(masks)
    for name, mask in masks.items():
        names |= dict.fromkeys(names_since(name, lineage) - declared, mask)
    return names


def mask_of(text: str, mask: Masking, *, zone: str | None) -> str:
    """SQL that masks a text that stands in no map, such as a DEFAULT."""
    pads = (f"(SELECT {pad} FROM {mask.secret})" for pad in ("pad_in", "pad_out"))
    return _mask(mask, zone, text=text, pads=tuple(pads))


def _mask(
    mask: Masking,
    zone: str | None,
    *,
    text: str = "v",
    pads: tuple[str, ...] = ("_pad_in", "_pad_out"),
) -> str:
    """SQL of what stands in place of `text`. `pads`: SQL of the secret's two pads."""
    if mask.mode == "null":
        return "CAST(NULL AS string)"
    if mask.type not in (None, "string"):
        text = f"coalesce({as_text(typed(text, mask.type, zone), mask.type)}, {text})"
    if mask.mode == "hash":
        return _digest(text, *pads)
    token = _digest(f"concat({sql_text(mask.domain)}, char(10), {text})", *pads)
    return f"concat('tok_', left({token}, 32))"


def _digest(text: str, pad_in: str, pad_out: str) -> str:
    """SQL of the HMAC-SHA256 of a text, in hex; null of null."""
    inner = f"unhex(sha2(concat({pad_in}, CAST({text} AS binary)), 256))"
    return f"sha2(concat({pad_out}, {inner}), 256)"
