"""JSON read exactly: numbers keep their digits, and nested values their text.

msgspec reads strictly and fast. Numbers with a point or an exponent come as their text
(`float_hook=str`), integers of any size as int, so no digit passes through a float. A text that
fails is read once more, leniently (semantics.md, 6): trailing commas and `//` comments outside
strings are dropped, raw newlines in strings are escaped; anything else is `bad_json`.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError

T = TypeVar("T")


class Digits(NamedTuple):
    """A number of digits and an exponent only, `1E+1`: as a text it could be taken for base64."""

    text: str

    def __str__(self) -> str:
        return self.text


def _number(token: str) -> str | Digits:
    return token if "." in token or "-" in token else Digits(token)


_IMAGE = msgspec.json.Decoder(dict[str, Any], float_hook=str)
_IMAGE_OR_NULL = msgspec.json.Decoder(dict[str, Any] | None, float_hook=str)
_MARKED = msgspec.json.Decoder(dict[str, Any] | None, float_hook=_number)
_MARKED_IMAGE = msgspec.json.Decoder(dict[str, Any], float_hook=_number)
_IMAGES = msgspec.json.Decoder(list[dict[str, Any] | None], float_hook=str)
_TEXT_IMAGES = msgspec.json.Decoder(list[dict[str, str | None] | None])
_RAWS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRITTEN = msgspec.json.Encoder().encode
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
# Every part is possessive, and a text without end is a token as well, so no byte is read twice.
_TOKEN = re.compile(
    rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|//[^\n]*+|,(?=(?:\s++|//[^\n]*+)*+[}\]])', re.DOTALL
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_ESCAPED = {code: f"\\u{code:04x}" for code in range(32)}
_PLACE = re.compile(r" \(byte (\d+)\)\Z")
_BOM = b"\xef\xbb\xbf"
_SPACES = b" \t\r\n" + _BOM
_NOTHING = (b"", b"null", b"[]")
_ZERO = b"-0"
_SPACED, _WHITE = b'": ', (b" ", b"\t", b"\r", b"\n")
_BEGINNING = 128
"""How many bytes of a message show whether its producer writes white space."""
UNREADABLE = (ValueError, RecursionError)
"""The errors that a decoder of this module raises for bytes that it cannot read; those of msgspec
and of UTF-8 are ValueErrors."""


def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """A decoder for `type_` under this module's rule for numbers."""
    return msgspec.json.Decoder(type_, float_hook=str)


def parse(value: bytes, decode: Callable[[bytes], T], warnings: list[str]) -> T:
    """`decode(value)`, leniently if it must be (`lenient_json`).

    The whole message must be UTF-8, otherwise nothing of it counts: `decode` itself checks only the
    parts that it reads. Raises bad_json, bad_shape, and too_large for a message that is nested too
    deep.
    """
    if not value.isascii():
        check_utf8(value)
    try:
        return decode(value)
    except msgspec.ValidationError as error:
        shortened = long_integers_as_text(value)
        if shortened != value:
            return parse(shortened, decode, warnings)
        raise DecodeError(Code.BAD_SHAPE, f"{error}; got {excerpt(value)}") from None
    except RecursionError:
        raise _too_deep(value) from None
    except UNREADABLE as error:
        first = error
    mended = lenient(value)
    if mended == value:
        raise _no_json(value, str(first))
    try:
        result = decode(mended)
    except msgspec.ValidationError as error:
        raise DecodeError(Code.BAD_SHAPE, f"{error}; got {excerpt(value)}") from None
    except RecursionError:
        raise _too_deep(value) from None
    except UNREADABLE as error:
        raise _no_json(value, _placed(str(error), value)) from None
    warnings.append(Code.LENIENT_JSON.value)
    return result


def begins_object(value: bytes) -> bool:
    """Whether a message begins as a JSON object does, behind any white space and byte order
    mark."""
    return value.startswith(b"{") or value.lstrip(_SPACES).startswith(b"{")


def one_after_the_other(value: bytes) -> list[bytes]:
    """The objects of a message that has several, with only white space between them; the message
    itself if it has one, or is no such text."""
    if _BETWEEN.search(value) is None:
        return [value]
    try:
        text = value.decode()
        read, at, found = json.JSONDecoder().raw_decode, 0, list[bytes]()
        while (start := _WORD.search(text, at)) is not None:
            _, at = read(text, start.start())
            found.append(text[start.start() : at].encode())
    except (ValueError, RecursionError):
        return [value]
    return found if len(found) > 1 and all(each[:1] == b"{" for each in found) else [value]


_WORD = re.compile(r"[^ \t\r\n]")
_BETWEEN = re.compile(rb"\}[ \t\r\n]*\{")
"""What stands between two objects, unless it is part of a text."""


def parse_part(text: bytes, decode: Callable[[bytes], T], *, expected: str) -> T:
    """`decode(text)` for a raw part of a message that was read. Raises bad_shape."""
    try:
        return decode(text)
    except UNREADABLE as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected {expected}, {error}; got {excerpt(text)}"
        ) from None


def long_integers_as_text(value: bytes) -> bytes:
    """The message with its very long integers as texts, since Python does not turn those into
    numbers: a column of PostgreSQL's numeric has up to 131,072 digits."""
    return _LONG_INTEGERS.sub(_as_text, value)


def _as_text(token: re.Match[bytes]) -> bytes:
    return token[0] if token[0].startswith(b'"') else b'"' + token[0] + b'"'


_LONG_INTEGERS = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+-])-?[0-9]{%d,}+(?![.eE])'
    % (sys.int_info.default_max_str_digits + 1),
    re.DOTALL,
)
"""Texts, which are passed over to the end if nothing closes them, and integers of so many digits;
those of a fraction or an exponent are none."""


def check_utf8(value: bytes) -> None:
    """Raises bad_json if a message is not UTF-8 from its first byte to its last."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        at = error.start
        raise DecodeError(
            Code.BAD_JSON,
            f"expected JSON in UTF-8, got the byte 0x{value[at]:02x} (byte {at}) in "
            f"{excerpt(value[max(0, at - 20) :], 40)}",
        ) from None


def is_utf8(value: bytes) -> bool:
    """Whether a message is UTF-8 from its first byte to its last."""
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_HALF = re.compile(rb"(?<!\\)(?:\\\\)*+(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])")
"""An escape of the first half of a character, without the second."""


def _no_json(value: bytes, why: str) -> DecodeError:
    """`why`: what msgspec says; if the second half of a character is missing, it says that the text
    ends early."""
    if not value:
        return DecodeError(Code.BAD_JSON, "expected one JSON value, got an empty message")
    half = _HALF.search(value) if "truncated" in why else None
    if half is not None and value.rstrip().endswith((b"}", b"]")):
        why = f"{half[1].decode()} is half of a character and stands alone"
    return DecodeError(Code.BAD_JSON, f"expected one JSON value, {why}; got {excerpt(value)}")


def _too_deep(value: bytes) -> DecodeError:
    return DecodeError(
        Code.TOO_LARGE,
        f"expected objects and arrays some 900 deep in each other at most, got more in "
        f"{excerpt(value)}",
    )


def lenient(value: bytes) -> bytes:
    """The text without BOM, comments and trailing commas, raw control characters escaped."""
    return _TOKEN.sub(_mended, value.removeprefix(_BOM))


def _mended(match: re.Match[bytes]) -> bytes:
    token = match.group()
    if not token.startswith(b'"'):
        return b""
    if _CONTROL.search(token) is None:
        return token
    # One character for each byte: lengthening such a text by a map takes the least memory.
    return token.decode("latin-1").translate(_ESCAPED).encode("latin-1")


def _placed(why: str, value: bytes) -> str:
    """Why the mended text could not be read, with the place in the message as it came."""
    found = _PLACE.search(why)
    if found is None:
        return why
    wanted = int(found[1])
    start = len(_BOM) if value.startswith(_BOM) else 0
    shift = start
    for match in _TOKEN.finditer(value, start):
        grown = len(_mended(match)) - len(match.group())
        if match.end() + grown - shift > wanted:
            break
        shift -= grown
    return f"{why[: found.start()]} (byte {wanted + shift})"


def image(
    raw: msgspec.Raw | bytes, warnings: list[str], *, marked: bool = False
) -> dict[str, Any] | None:
    """A row image: column -> str (strings and numbers that are no integers), int, bool, None, dict
    or list.

    `marked`: numbers that could be taken for base64 come as `Digits`.

    None for JSON null, `{}` and `[]` (no image). Adds `dup_key` if a name stands twice. Raises
    bad_json for bytes that are not UTF-8, bad_shape for anything but an object.
    """
    try:
        columns: dict[str, Any] | None = (_MARKED if marked else _IMAGE_OR_NULL).decode(raw)
    except UNREADABLE:
        text = bytes(raw)
        if not text or text.startswith(b"["):
            if text[1:-1].strip():
                raise DecodeError(
                    Code.BAD_SHAPE, f"expected an object of columns, got {excerpt(text)}"
                ) from None
            return None
        columns = _row(_IMAGE.decode, text)
    if not columns:
        return None
    text = bytes(raw)
    if 0 in columns.values() and has_negative_zero(text):
        _keep_sign(columns, text)
    if text.count(b'":') != len(columns) and _more_names(text, _names(columns)):
        if duplicated(text):
            warnings.append(Code.DUP_KEY.value)
    return columns


def plain_images(texts: Sequence[bytes], *, marked: bool) -> list[dict[str, Any] | None]:
    """Row images as `image` gives them, except for the signs of zeros. None for an image that
    `image` has to read: it is no object of columns, or a name may stand twice in it."""
    decode = (_MARKED_IMAGE if marked else _IMAGE).decode
    images: Sequence[dict[str, Any] | None]
    try:
        images = [decode(text) for text in texts]
    except UNREADABLE:
        images = [_image_or_none(text, decode) for text in texts]
    return [
        columns
        if columns
        and (
            text.count(b'":') == len(columns)
            or not _more_names(text, len(columns))
            or not duplicated(text)
        )
        else None
        for columns, text in zip(images, texts, strict=True)
    ]


def _image_or_none(text: bytes, decode: Callable[[bytes], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return decode(text)
    except UNREADABLE:
        return None


def has_negative_zero(text: bytes) -> bool:
    """Whether an object may hold a negative zero; dates hold a minus and a zero, too."""
    return b":-0" in text or b": -0" in text


def _keep_sign(columns: dict[str, Any], text: bytes) -> None:
    """Replaces a negative zero, which no integer can be, by its text."""
    zeros = [name for name, value in columns.items() if value.__class__ is int and value == 0]
    if zeros:
        sent = _RAWS.decode(text)
        for name in zeros:
            if bytes(sent[name]) == _ZERO:
                columns[name] = _ZERO.decode()


class Images(NamedTuple):
    """A JSON array of row images. `textual`: every value is a string or null.

    `elements`: each row as sent, cut out of the array when the first of them is asked for.
    """

    rows: list[dict[str, Any] | None]
    textual: bool
    raw: msgspec.Raw | bytes
    elements: list[msgspec.Raw]

    def text(self, index: int) -> Element:
        """The row `index` as sent, for `nested`."""
        return Element(self, index)


def images(raw: msgspec.Raw | bytes, warnings: list[str], *, textual: bool = True) -> Images:
    """The row images of a JSON array, each as `image` gives one; none for null and for nothing.

    `textual`: all values are likely to be text; only then are they found to be. Adds `dup_key`.
    Raises bad_json for bytes that are not UTF-8, bad_shape for anything but an array of objects
    and nulls.
    """
    text = bytes(raw)
    if text in _NOTHING:
        return _NO_IMAGES
    rows: list[dict[str, Any] | None] | None = None
    if textual:
        try:
            rows = _TEXT_IMAGES.decode(text)
        except UNREADABLE:
            textual = False
    if rows is None:
        rows = _row(_IMAGES.decode, text)
        if has_negative_zero(text):
            for row, element in zip(rows, _ELEMENTS.decode(text), strict=True):
                _keep_sign(row or {}, bytes(element))
    elif len(rows) == 1:
        # If there are two quotes for each name and each text, and no others, no name stood twice.
        row = rows[0] or {}
        nulls = list(row.values()).count(None) if None in row.values() else 0
        if text.count(b'"') == 4 * len(row) - 2 * nulls:
            return Images(rows, textual, raw, [])
    names = sum([len(row) for row in rows if row])
    if text.count(b'":') != names and _more_names(text, names):
        sent = zip(rows, _ELEMENTS.decode(text), strict=True)
        if any(duplicated(bytes(element)) for row, element in sent if row is not None):
            warnings.append(Code.DUP_KEY.value)
    return Images(rows, textual, raw, [])


def _row(decode: Callable[[bytes], T], text: bytes) -> T:
    """`decode(text)` for JSON that was cut out of a message as `msgspec.Raw`, which is not fully
    checked."""
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise DecodeError(Code.BAD_SHAPE, f"{error}; got {excerpt(text)}") from None
    except RecursionError:
        raise _too_deep(text) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(
            Code.BAD_JSON, f"expected a row image, {error}; got {excerpt(text)}"
        ) from None


class Element:
    """One row of a JSON array, cut out only when its text is asked for (by `nested`)."""

    __slots__ = ("images", "index")

    def __init__(self, images: Images, index: int) -> None:
        self.images = images
        self.index = index

    def __bytes__(self) -> bytes:
        elements = self.images.elements
        if not elements:
            elements += _ELEMENTS.decode(self.images.raw)
        return bytes(elements[self.index])


_NO_IMAGES = Images([], True, b"", [])


def _names(columns: dict[str, Any]) -> int:
    """The names of an image and of the objects that are its values."""
    return len(columns) + sum([len(value) for value in columns.values() if value.__class__ is dict])


def _more_names(text: bytes, names: int) -> bool:
    """Whether `text` may hold more than `names` names; escaped quotes in values do not count."""
    return text.count(b'":') - text.count(b'\\":') != names


def duplicated(text: bytes) -> bool:
    """Whether a name stands twice in the outermost object of `text`, valid JSON."""
    if len(_WRITTEN(_RAWS.decode(text))) == len(text):
        # written again from its members, each once, it must be as long as before
        return False
    names: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> int:
        names[:] = [name for name, _ in pairs]
        return 0

    json.loads(text, object_pairs_hook=note, parse_int=len, parse_float=len)
    return len(set(names)) != len(names)


def all_text(values: Collection[Any]) -> bool:
    """Whether every value is text or None. Joining them is the quickest test."""
    try:
        "".join(values if None not in values else [v for v in values if v is not None])
    except TypeError:
        return False
    return True


class _Columns:
    """The columns of the image that was cut apart last, since the next value is mostly another of
    its.

    It holds one image, compared as an object, so that the lookup costs the same for any size.
    """

    def __init__(self) -> None:
        self._last: tuple[object, dict[str, msgspec.Raw]] = (None, {})

    def of(self, raw: msgspec.Raw | bytes | Element) -> dict[str, msgspec.Raw]:
        known, columns = self._last
        if raw is not known:
            columns = _RAWS.decode(bytes(raw))
            self._last = raw, columns
        return columns


_COLUMNS = _Columns()


def compacted(value: bytes) -> bytes:
    """JSON without the white space between its tokens; as it came if it begins without any, or is
    no JSON. Its strings and numbers stay exactly as they were sent."""
    if value.find(_SPACED, 0, _BEGINNING) < 0 and value[1:2] not in _WHITE:
        return value
    try:
        return msgspec.json.format(value, indent=-1)
    except UNREADABLE:
        return value


def nested(raw: msgspec.Raw | bytes | Element, column: str) -> str:
    """The exact text of one column of an image, for values that are objects or arrays.

    If all columns of an image are asked for with the same `raw`, it is read once.
    """
    return bytes(_COLUMNS.of(raw)[column]).decode()


def members(raw: msgspec.Raw | bytes) -> dict[str, msgspec.Raw]:
    """The top level of a JSON object, each value as its raw text."""
    return _RAWS.decode(bytes(raw))


class Glimpses:
    """The top levels of JSON objects that several readers look into, one after the other.

    Only the last is kept, so a look costs no more than comparing the bytes. Nobody may change it.
    """

    def __init__(self) -> None:
        self._last: tuple[bytes, Mapping[str, msgspec.Raw]] = (b"{}", {})

    def of(self, raw: msgspec.Raw | bytes) -> Mapping[str, msgspec.Raw]:
        """As `members`; empty for JSON that is no object. Raises what `members` raises."""
        text = bytes(raw)
        known, found = self._last
        if text == known:
            return found
        if not text.startswith(b"{"):
            return {}
        found = _RAWS.decode(text)
        self._last = text, found
        return found


def excerpt(value: bytes, most: int = 80) -> str:
    """The beginning of a message, for an error text; readable in every script if it is text."""
    part = value[:most]
    shown = repr(part)
    if not part.isascii():
        with suppress(UnicodeDecodeError):
            # The cut may go through a character.
            shown = "b" + repr(codecs.getincrementaldecoder("utf-8")().decode(part))
    return shown + ("…" if len(value) > most else "")
