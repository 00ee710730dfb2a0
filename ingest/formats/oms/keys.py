"""The key that OMS Default sends beside the images: names and values joined by U+0001."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingest.codes import Code
from ingest.events import Row
from ingest.names import lowered
from ingest.wire.scalars import Scalar

JOINER = "\x01"
_LITERALS = ("\\u0001", "/u0001")


class SentKey(NamedTuple):
    """Key columns, and their values now and before; None if the row's own values must be taken."""

    columns: tuple[str, ...] | None
    key: Row | None = None
    key_before: Row | None = None


def sent_key(
    names_text: str | None,
    values_text: Scalar,
    *,
    row: Row,
    before: Row | None,
    warnings: list[str],
) -> SentKey:
    """The key of a change; its values only if `row`, the row now, lacks one of the columns.

    It then warns `key_not_in_image`, and `key_split` if names and values do not pair up by U+0001.
    """
    if not names_text:
        return SentKey(None)
    names, wanted = _split(names_text)
    text = "" if values_text is None else str(values_text)
    if wanted <= row.keys():
        if len(names) > 1 and values_text is not None and text.count(JOINER) + 1 != len(names):
            warnings.append(Code.KEY_SPLIT.value)
        return SentKey(names)
    values = (text,) if len(names) == 1 else tuple(text.split(JOINER))
    if len(names) == 1 and JOINER not in text:
        for literal in _LITERALS:
            parts = tuple(names_text.split(literal))
            if len(parts) > 1 and (
                len(parts) == text.count(literal) + 1 or row.keys() >= set(parts)
            ):
                names, values = parts, tuple(text.split(literal))
                warnings.append(Code.KEY_SPLIT.value)
                break
    elif len(values) != len(names) and values_text is not None:
        warnings.append(Code.KEY_SPLIT.value)
    if len(values) != len(names) or values_text is None:
        return SentKey(names)
    folded = lowered(row)
    if all(name.lower() in folded for name in names):
        return SentKey(names)
    warnings.append(Code.KEY_NOT_IN_IMAGE.value)
    pairs = dict(zip(names, values, strict=True))
    return SentKey(
        names,
        {name: row.get(name, value) for name, value in pairs.items()},
        # The values sent are of one side; the other is known if a part of it is in the row.
        {name: before.get(name, value) for name, value in pairs.items()}
        if before is not None and any(name in before for name in names)
        else None,
    )


def key_columns(names_text: str | None) -> tuple[str, ...] | None:
    """The key columns that the message names, in its order; `sent_key` of a row that has them."""
    return _split(names_text)[0] if names_text else None


def key_names(names_text: str | None) -> frozenset[str]:
    """The key columns that the message names."""
    return _split(names_text)[1] if names_text else frozenset()


@lru_cache(maxsize=4096)
def _split(names_text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    names = tuple(names_text.split(JOINER))
    return names, frozenset(names)
