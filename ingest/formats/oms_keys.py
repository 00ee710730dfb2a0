"""The key that OMS Default sends beside the images: names and values joined by U+0001."""

from __future__ import annotations

from functools import lru_cache

from ingest.codes import Code
from ingest.events import Row
from ingest.formats.envelope import Scalar

JOINER = "\x01"
_LITERALS = ("\\u0001", "/u0001")


def primary_key(
    names_text: str | None, values_text: Scalar, row: Row, warnings: list[str]
) -> tuple[tuple[str, ...] | None, Row | None]:
    """Key columns, and their values only where the row lacks one: else the row's own are taken.

    Warns `key_not_in_image` then, and `key_split` where names and values do not pair up by U+0001.
    """
    if not names_text:
        return None, None
    names = _split(names_text)
    text = "" if values_text is None else str(values_text)
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
    if len(values) != len(names) or values_text is None or row.keys() >= set(names):
        return names, None
    folded = {name.lower() for name in row}
    if all(name.lower() in folded for name in names):
        return names, None
    warnings.append(Code.KEY_NOT_IN_IMAGE.value)
    return names, {
        name: row[name] if name in row else value for name, value in zip(names, values, strict=True)
    }


@lru_cache(maxsize=4096)
def _split(names_text: str) -> tuple[str, ...]:
    return tuple(names_text.split(JOINER))
