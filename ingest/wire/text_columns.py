"""Row images with the same columns as canonical text, read column by column.

The values of a column are mostly of one kind, so the kind is determined once and the column is read
by one comprehension. A column in which a value warns or fails is read again value by value, and the
result is the same. Values that a reader of single values would have to look at twice are called
odd: objects, arrays and negative zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ingest.errors import DecodeError
from ingest.values.jsontext import Digits, has_negative_zero
from ingest.wire.contract import Changes, Texts
from ingest.wire.declared import Convert, plain
from ingest.wire.kept_values import Kept, kept_by

FEW = 16
"""If a table has fewer changes than this, reading them one by one is faster than by column."""

T = TypeVar("T")
C = TypeVar("C")
_NULL = type(None)
_TEXT = frozenset((str, _NULL))
_WHOLE = frozenset((int, _NULL))
_TRUTHS = frozenset((bool, _NULL))
_SCALARS = frozenset((str, int, bool, _NULL, Digits))


def read_tables(
    tables: Mapping[T, list[C]], read: Callable[[T, list[C]], list[Changes]]
) -> list[Changes]:
    """The changes of each table that has enough of them, as `read` returns them; none of a table
    that `read` cannot read."""
    found: list[Changes] = []
    for table, changes in tables.items():
        if len(changes) < FEW:
            continue
        with suppress(DecodeError):
            found += [one for one in read(table, changes) if len(one.at) >= FEW]
    return found


def columns_of(
    images: Sequence[dict[str, Any] | None], before: int | None, after: int | None
) -> tuple[str, ...] | None:
    """The columns that both images of a change have, or the one image that is given; None if an
    image is not regular, or has other columns or none."""
    columns: tuple[str, ...] | None = None
    for place in (before, after):
        if place is not None:
            image = images[place]
            if image is None:
                return None
            found = tuple(image)
            if columns is not None and found != columns:
                return None
            columns = found
    return columns or None


class Reading(NamedTuple):
    """How the values of a column become text: None = they stay as they are. `kept`: the values that
    stay as they are, whatever `convert` does with others."""

    convert: Convert | None
    kept: Kept = Kept(integers=True)


class TextRows(NamedTuple):
    """Row images as text, each by its place among all images that were sent. `doubts`: the warnings
    of the rows that have some, in the order of their columns. `odd`: the rows that must be read one
    by one; their texts here mean nothing."""

    rows: Mapping[int | None, Texts]
    doubts: Mapping[int, list[str]]
    odd: frozenset[int | None]

    def of(self, places: Iterable[int | None]) -> list[Texts | None]:
        """The rows at these places, and None for a place that is None."""
        return list(map(self.rows.get, places))


def readings_of(converts: Mapping[str, Convert | None], names: Sequence[str]) -> list[Reading]:
    """How each of the columns `names` is read, so that the texts are those that `converts` gives
    for single values."""
    known = map(converts.get, names)
    return [Reading(None) if c is None else Reading(c, kept_by(c)) for c in known]


class SentImages(NamedTuple):
    """The images of many messages: as they were sent, and as `jsontext.plain_images` reads them."""

    texts: Sequence[bytes]
    read: Sequence[dict[str, Any] | None]


def text_rows(
    images: SentImages,
    places: Sequence[int],
    readings: Sequence[Reading],
    *,
    refused: frozenset[str] = frozenset(),
) -> TextRows:
    """The rows of the images at `places`, which have the same columns; each column is read by its
    own entry of `readings`. `refused`: texts that stand for something else than a value."""
    rows = [image.values() for image in map(images.read.__getitem__, places) if image is not None]
    sent = list(map(images.texts.__getitem__, places))
    doubts: dict[int, list[str]] = {}
    odd: set[int] = set()
    columns = []
    for values, reading in zip(zip(*rows, strict=True), readings, strict=True):
        kinds = frozenset(map(type, values))
        odd.update(_odd_values(values, sent, kinds, refused=refused))
        columns.append(_column(values, kinds, reading, doubts=doubts, odd=odd))
    return TextRows(
        dict(zip(places, zip(*columns, strict=True), strict=True)),
        {places[at]: found for at, found in doubts.items()},
        frozenset(map(places.__getitem__, odd)),
    )


def _odd_values(
    values: Sequence[Any], sent: Sequence[bytes], kinds: frozenset[type], *, refused: frozenset[str]
) -> list[int]:
    """The rows in which a value of the column cannot be read by column."""
    found: list[int] = []
    if not kinds <= _SCALARS:
        found += [at for at, value in enumerate(values) if value.__class__ not in _SCALARS]
        values = [value if value.__class__ in _SCALARS else None for value in values]
    if int in kinds and 0 in values:
        found += [
            at
            for at, value in enumerate(values)
            if value.__class__ is int and value == 0 and has_negative_zero(sent[at])
        ]
    if refused and str in kinds and not refused.isdisjoint(values):
        found += [at for at, value in enumerate(values) if value in refused]
    return found


def _column(
    values: Sequence[Any],
    kinds: frozenset[type],
    reading: Reading,
    *,
    doubts: dict[int, list[str]],
    odd: set[int],
) -> Sequence[str | None]:
    convert, kept = reading
    try:
        if convert is None and kinds <= _TEXT:
            return values
        if kept.integers and kinds <= _WHOLE:
            if _NULL in kinds:
                return [None if value is None else str(value) for value in values]
            return list(map(str, values))
        if convert is None and kinds <= _TRUTHS:
            return [None if v is None else "true" if v else "false" for v in values]
        read, found = convert or _as_sent, list[str]()
        sent = [value for value in values if value is not None] if _NULL in kinds else values
        stays = kept.texts
        if stays is not None and kinds <= _TEXT and sent and stays.one(sent[0]):
            if stays.fits(sent):
                return values
            texts = [v if v is None or stays.one(v) else read(v, found) for v in values]
        else:
            texts = [None if value is None else read(value, found) for value in values]
        if not found:
            return texts
    except Exception:
        # Reading the values one by one finds out which of them failed.
        pass
    return _one_by_one(values, convert or _as_sent, doubts=doubts, odd=odd)


def _one_by_one(
    values: Sequence[Any], convert: Convert, *, doubts: dict[int, list[str]], odd: set[int]
) -> list[str | None]:
    texts: list[str | None] = []
    for at, value in enumerate(values):
        found: list[str] = []
        text = None
        try:
            text = None if value is None else convert(value, found)
        except Exception:
            odd.add(at)
        texts.append(text)
        if found:
            doubts.setdefault(at, []).extend(found)
    return texts


def _as_sent(value: Any, warnings: list[str]) -> str:
    return value if value.__class__ is str else plain(value)
