"""The column types of DTS: from a number of the source's own, and from what the values show.

Source: the field converters of https://github.com/aliyun/aliyun-dts-subscribe-demo (510fea5);
PostgreSQL sends the OID of the type.

A value shows a word: `integer`, `big` (beyond 64 bits signed), `(p,s)` or `decimal`, `double`,
`timestamp`, `datetime`, `date`, `time`, `year`, `interval`, `timestamp with time zone`, `text`,
`bytes`, `json`, `geometry`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import canonical

_MYSQL = {
    **{0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double"},
    **{7: "timestamp", 8: "bigint", 9: "mediumint", 10: "date", 11: "time", 12: "datetime"},
    **{13: "year", 14: "date", 15: "varchar", 16: "bit", 17: "timestamp", 18: "datetime"},
    **{19: "time", 245: "json", 246: "decimal", 247: "enum", 248: "set", 249: "tinytext"},
    **{250: "mediumtext", 251: "longtext", 252: "text", 253: "varchar", 254: "char"},
    255: "geometry",
}
_ORACLE = {
    **{1: "varchar2", 2: "number", 8: "long", 12: "date", 23: "raw", 24: "long raw"},
    **{58: "xmltype", 69: "rowid", 96: "char", 100: "binary_float", 101: "binary_double"},
    **{112: "clob", 113: "blob", 114: "bfile", 180: "timestamp", 208: "urowid"},
    **{181: "timestamp with time zone", 182: "interval year to month"},
    **{183: "interval day to second", 231: "timestamp with local time zone"},
}
_POSTGRES = {
    **{16: "boolean", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4"},
    **{25: "text", 26: "oid", 114: "json", 142: "xml", 700: "float4", 701: "float8"},
    **{790: "money", 829: "macaddr", 869: "inet", 1042: "char", 1043: "varchar", 1082: "date"},
    **{1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1266: "timetz"},
    **{1560: "bit", 1562: "varbit", 1700: "numeric", 2950: "uuid", 3802: "jsonb"},
}
_NUMBERS = {"mysql": _MYSQL, "oracle": _ORACLE, "postgres": _POSTGRES}
# Types that their number does not fully determine, so that a NULL says nothing of them.
_BYTES_OF = {
    **{"tinytext": "tinyblob", "mediumtext": "mediumblob", "longtext": "longblob"},
    **{"text": "blob", "varchar": "varbinary", "char": "binary"},
}
_DECIMALS = frozenset(("decimal", "numeric", "number"))
_BY_WORD = {
    **{"integer": "bigint", "big": "bigint unsigned", "text": "varchar", "bytes": "blob"},
    **{"interval": "interval"},
}
_TRUTH = {"t": "true", "f": "false", "true": "true", "false": "false", "1": "true", "0": "false"}


def family_of_source(source_type: str) -> str:
    """The type family of a sourceType; those whose numbers are not documented have `other`."""
    return {
        **{"MySQL": "mysql", "DRDS": "mysql", "Oracle": "oracle", "PostgreSQL": "postgres"},
        "PPAS": "postgres",
    }.get(source_type, "other")


def source_types(family: str, numbers: Sequence[int]) -> Callable[[int, str | None], str | None]:
    """The type of column `index` whose value showed `word`; see `ShownTypes`."""
    names = [_NUMBERS.get(family, {}).get(number) for number in numbers]

    def of(index: int, word: str | None) -> str | None:
        name = names[index]
        if name is None:
            if word is not None and word.startswith("("):
                return "decimal" + word
            return _BY_WORD.get(word, word) if word is not None else None
        if name in _DECIMALS:
            return name + word if word is not None and word.startswith("(") else word and name
        if family == "mysql" and name in _BYTES_OF:
            return word and (_BYTES_OF[name] if word == "bytes" else name)
        if word == "big" and name == "bigint":
            return "bigint unsigned"
        return name

    return of


class Widened:
    """The words of a table's rows; a decimal column has the widest word that its values have shown.

    DTS sends the digits and the scale of a value, not of its column. Taken as they come, every
    length that a price can have would be a type of its own.
    """

    def __init__(self, family: str, numbers: Sequence[int]) -> None:
        names = [_NUMBERS.get(family, {}).get(number) for number in numbers]
        self._places = [i for i, name in enumerate(names) if name is None or name in _DECIMALS]
        self._sizes: dict[int, tuple[int, int]] = {}
        self._words: dict[int, str] = {}

    def words(self, shown: Sequence[str | None]) -> Sequence[str | None]:
        """The words that a row has shown, with its decimals' words widened."""
        if not self._places:
            return shown
        widened = list(shown)
        for place in self._places:
            word = shown[place]
            if word is not None and word.startswith("("):
                self._grow(place, word)
            elif word is not None and word != "decimal":
                continue
            widened[place] = self._words.get(place, word)
        return widened

    def _grow(self, place: int, word: str) -> None:
        if word == self._words.get(place):
            return
        precision, scale = map(int, word[1:-1].split(","))
        whole, behind = self._sizes.get(place, (0, 0))
        whole, behind = max(whole, precision - scale), max(behind, scale)
        self._sizes[place] = whole, behind
        self._words[place] = f"({whole + behind},{behind})"


Correct = Callable[[str, str, list[str]], str]
"""Text, word, warnings -> canonical text."""


def corrections(family: str, numbers: Sequence[int]) -> dict[int, Correct]:
    """By column index, the function that makes canonical text of a value if the type's number says
    more than the value."""
    if family == "mysql":
        wanted: dict[int, Correct] = {7: _not_zero, 16: _bits, 17: _not_zero}
    elif family == "postgres":
        wanted = {16: _truth, 1560: _digits, 3802: _json, 114: _json}
    else:
        return {}
    return {index: wanted[number] for index, number in enumerate(numbers) if number in wanted}


def _not_zero(text: str, word: str, warnings: list[str]) -> str:
    """TIMESTAMP begins one second after the epoch; the epoch's own second is MySQL's zero date."""
    if text != _EPOCH:
        return text
    warnings.append(Code.ZERO_DATE.value)
    return "0000-00-00 00:00:00"


_EPOCH = "1970-01-01T00:00:00Z"


def _bits(text: str, word: str, warnings: list[str]) -> str:
    """BIT as the unsigned integer of its bytes; MySQL's has at most 64 bits."""
    if word != "bytes":
        return text
    return canonical.bits_in(base64.b64decode(text), None, "big")


def _digits(text: str, word: str, warnings: list[str]) -> str:
    """PostgreSQL's BIT(n), which comes as zeros and ones, as an unsigned integer up to 64 bits."""
    return canonical.bits_of(text) if text and not text.strip("01") else text


def _truth(text: str, word: str, warnings: list[str]) -> str:
    return _TRUTH.get(text.lower(), text)


def _json(text: str, word: str, warnings: list[str]) -> str:
    """JSONB comes as bytes that hold its text."""
    if word != "bytes":
        return text
    try:
        return base64.b64decode(text).decode()
    except UnicodeDecodeError:
        raise DecodeError(Code.BAD_VALUE, f"expected JSON in UTF-8, got {text[:80]}") from None
