"""Texts of a person, found in files, cells and messages: as they are, or as JSON writes them.

In what is text, a text is found where it stands by itself: `12.50` is no part of `112.50`, and
`ada@home.example` none of `not-ada@home.example`. In other bytes nothing tells where a text begins,
so there it is found anywhere.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from ingest.sql.delivery import MESSAGE

# Letters of other scripts are bytes above 0x7f, which part nothing.
_PART = rb"[\w.@+-]"
# What stands before may be the end of an escape: a line break in JSON.
_BEFORE = rb"(?:(?<!" + _PART + rb")|(?<=\\[bfnrt]))"
_OF_TEXT = (b"{", b"[")


class Texts(NamedTuple):
    """What finds texts: `apart` where they stand by themselves, `anywhere`."""

    apart: re.Pattern[bytes]
    anywhere: re.Pattern[bytes]

    def in_bytes(self, value: bytes | memoryview | pa.Buffer) -> bool:
        """Whether bytes that may be text, or not, have one of them."""
        start = bytes(memoryview(value)[:64]).lstrip()[:1]
        pattern = self.apart if start in _OF_TEXT else self.anywhere
        return pattern.search(value) is not None

    def in_text(self, value: bytes | memoryview | pa.Buffer) -> bool:
        """Whether a text has one of them."""
        return self.apart.search(value) is not None


def texts_pattern(texts: Iterable[str]) -> Texts | None:
    """What finds any of the texts; None: there are none."""
    written = {
        form.encode()
        for text in texts
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    if not written:
        return None
    # The longest first: of two that begin alike, the one that stands by itself is found.
    any_of = b"|".join(map(re.escape, sorted(written, key=lambda text: (-len(text), text))))
    apart = _BEFORE + b"(?:" + any_of + b")(?!" + _PART + b")"
    return Texts(re.compile(apart), re.compile(any_of))


def holding_cells(array: pa.Array, texts: Texts) -> list[int]:
    """The rows of a column whose cell has one of the texts."""
    if isinstance(array, pa.DictionaryArray):
        held = set(holding_cells(array.dictionary, texts))
        return [row for row, at in enumerate(array.indices.to_pylist()) if at in held]
    if isinstance(array, pa.MapArray):
        inner = (holding_cells(array.keys, texts), holding_cells(array.items, texts))
        return _outer(array, sorted({*inner[0], *inner[1]}))
    if isinstance(array, pa.StructArray):
        return sorted({row for field in array.flatten() for row in holding_cells(field, texts)})
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return _outer(array, holding_cells(array.values, texts))
    kind = array.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return []
    found = texts.in_bytes if pa.types.is_binary(kind) else texts.in_text
    return [row for row, cell in enumerate(array) if cell.is_valid and found(cell.as_buffer())]


def _outer(array: pa.Array, inner: list[int]) -> list[int]:
    """The rows of lists that hold the elements `inner`, given in order."""
    if not inner:
        return []
    ends = array.offsets.to_pylist()
    return [
        row
        for row, (first, end) in enumerate(pairwise(ends))
        if bisect_left(inner, first) < bisect_left(inner, end)
    ]


def messages_with(batches: Iterable[pa.RecordBatch], texts: Texts) -> Iterator[pa.RecordBatch]:
    """Of messages (MESSAGE, key, value) the coordinates of those that have one of the texts."""
    for batch in batches:
        rows = {row for name in ("key", "value") for row in holding_cells(batch[name], texts)}
        yield batch.select(list(MESSAGE)).take(pa.array(sorted(rows), pa.int64()))
