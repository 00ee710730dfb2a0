"""The ways in which a target keeps the changes of its source tables.

`pipelines/apply/modes.py` says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ingest.config.routes import Route
from ingest.config.tables import ScdType

Mode = Literal["scd1", "scd2", "append"]
"""`scd1`: the rows as they are. `scd2`: every version of them. `append`: every row image."""

_TIMES = {"_valid_from": "timestamp", "_valid_to": "timestamp", "_current": "boolean"}


class Keeping(NamedTuple):
    """What the targets of a mode keep.

    `keyed`: later changes of a key replace earlier ones, so order matters. `versions`: earlier
    versions of a row stay beside the present one. `added`: the columns that the mode adds, with
    their types.
    """

    keyed: bool
    versions: bool
    added: Mapping[str, str]

    @property
    def latest(self) -> bool:
        """Whether a key has one row, as it is now."""
        return self.keyed and not self.versions


KEEPING: Mapping[Mode, Keeping] = {
    "scd1": Keeping(keyed=True, versions=False, added={}),
    "scd2": Keeping(keyed=True, versions=True, added=_TIMES),
    "append": Keeping(keyed=False, versions=False, added={}),
}
_DECLARED: Mapping[ScdType, Mode] = {1: "scd1", 2: "scd2", "append": "append"}


class TargetContract(NamedTuple):
    """What a target was made for, and remains: its mode, its key columns, its `sequence_by`, what
    deletes and truncates do (None: not known, or nothing), what stands in place of values, in the
    words of `masks_of`, and its `shard_column` (None: not known, or none)."""

    mode: Mode
    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    deletes: str | None = None
    truncates: str | None = None
    masks: tuple[str, ...] = ()
    shard: str | None = None

    @classmethod
    def by(cls, route: Route, mode: Mode, keys: tuple[str, ...]) -> TargetContract:
        """What the configuration asks for."""
        masks, shard = masks_of(route), route.shard_column
        if not KEEPING[mode].keyed:
            return cls(mode, keys, (), masks=masks, shard=shard)
        sequence = route.sequence_by or ()
        return cls(mode, keys, sequence, route.deletes, route.truncates, masks, shard)

    @property
    def keeps(self) -> Keeping:
        """What the rows of the target are."""
        return KEEPING[self.mode]

    @property
    def stored_as(self) -> str:
        """The mode as the YAML has it, `stored_as_scd_type`."""
        return self.mode.removeprefix("scd")

    def differs(self, other: TargetContract) -> bool:
        """Whether a target of this kind cannot be kept as one of the other kind. The key does not
        count, since a schema change may give it another one; the shard column, which is part of
        it, does not either."""
        mine, theirs = (made._replace(keys=(), shard=None) for made in (self, other))
        return any(
            one != another
            for one, another in zip(mine, theirs, strict=True)
            if one is not None and another is not None
        )

    def __str__(self) -> str:
        terms = [f"stored_as_scd_type {self.stored_as}"]
        terms.append(f"keys ({', '.join(self.keys)})" if self.keys else "no key")
        terms += [f"sequence_by ({', '.join(self.sequence)})"] if self.sequence else []
        terms += [f"deletes {self.deletes}"] if self.deletes not in (None, "hard") else []
        terms += [f"truncates {self.truncates}"] if self.truncates not in (None, "apply") else []
        terms += [f"masks ({', '.join(self.masks)})"] if self.masks else []
        return ", ".join(terms)


def masks_of(route: Route) -> tuple[str, ...]:
    """What stands in place of values by the configuration, in words: `email hash`; and the name of
    the secret, since another secret makes other hashes."""
    found = [
        f"{name} {mask.mode}{f' of {mask.type}' if mask.type else ''}"
        for name, mask in sorted(route.masks.items())
    ]
    return (*found, *([f"by secret {route.mask_secret}"] if route.mask_secret else []))


def declared_keeping(route: Route) -> Keeping:
    """What the YAML says that a target keeps, whether or not there is a key for it."""
    return KEEPING[_DECLARED[route.stored_as_scd_type]]


def mode_of(route: Route, keys: tuple[str, ...]) -> Mode | None:
    """The mode of a target; a table without any key can only be appended (semantics.md, 21).

    None if versions are asked for and nothing tells the rows apart.
    """
    mode = _DECLARED[route.stored_as_scd_type]
    keeps = KEEPING[mode]
    if keys or not keeps.keyed:
        return mode
    return None if keeps.versions else "append"


def label(made: TargetContract | None) -> str | None:
    """How `status` says what a target keeps: `1`, `2`, `append`, or `append (no key)`."""
    if made is None:
        return None
    unkeyed = not made.keeps.keyed and not made.keys
    return f"{made.stored_as} (no key)" if unkeyed else made.stored_as
