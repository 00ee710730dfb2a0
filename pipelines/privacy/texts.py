"""Texts of a person found in files, cells and messages, as they are or as JSON writes them.

In a text, a text is found only if it stands by itself: `12.50` is no part of `112.50`, and
`ada@home.example` none of `not-ada@home.example`. In other bytes nothing shows where a text begins,
so there it is found anywhere.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from ingest.sql.delivery import MESSAGE

# Letters of other scripts are bytes above 0x7f, which separate nothing.
_PART = rb"[\w.@+-]"
# The character before may be the end of an escape, such as a line break in JSON.
_BEFORE = rb"(?:(?<!" + _PART + rb")|(?<=\\[bfnrt]))"
_AFTER = re.compile(_PART)
_OF_TEXT = (b"{", b"[")


class Texts(NamedTuple):
    """Finds texts, given in all `forms` that bytes may have them: `apart` where they stand by
    themselves, or `anywhere`; both patterns say where one may begin. `lengths` has the lengths of
    the forms that begin with the same `head` bytes, so that a place is looked at only a few times,
    however many texts there are."""

    forms: frozenset[bytes]
    lengths: Mapping[bytes, Sequence[int]]
    head: int
    apart: re.Pattern[bytes]
    anywhere: re.Pattern[bytes]

    def in_bytes(self, value: bytes | memoryview | pa.Buffer) -> bool:
        """Whether bytes that may be text, or not, have one of them."""
        data = memoryview(value).tobytes()
        if data[:64].lstrip()[:1] in _OF_TEXT:
            return self.in_text(data)
        return any(True for _ in self._ends(data, self.anywhere))

    def in_text(self, value: bytes | memoryview | pa.Buffer) -> bool:
        """Whether a text has one of them."""
        data = memoryview(value).tobytes()
        return any(not _AFTER.match(data, end) for end in self._ends(data, self.apart))

    def _ends(self, data: bytes, begins: re.Pattern[bytes]) -> Iterator[int]:
        """Where the texts end that begin at such places."""
        for match in begins.finditer(data):
            at = match.start()
            for length in self.lengths.get(data[at : at + self.head], ()):
                if data[at : at + length] in self.forms:
                    yield at + length


def texts_pattern(texts: Iterable[str]) -> Texts | None:
    """What finds any of the texts; None: there are none."""
    forms = frozenset(
        form.encode()
        for text in texts
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        if form
    )
    if not forms:
        return None
    head = min(map(len, forms))
    lengths: dict[bytes, set[int]] = {}
    for form in forms:
        lengths.setdefault(form[:head], set()).add(len(form))
    first = b"[" + b"".join(re.escape(bytes([byte])) for byte in {form[0] for form in forms}) + b"]"
    return Texts(
        forms,
        {begin: sorted(found) for begin, found in lengths.items()},
        head,
        re.compile(_BEFORE + first),
        re.compile(first),
    )


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
    """The coordinates of those messages (MESSAGE, key, value) that have one of the texts."""
    for batch in batches:
        rows = {row for name in ("key", "value") for row in holding_cells(batch[name], texts)}
        yield batch.select(list(MESSAGE)).take(pa.array(sorted(rows), pa.int64()))
