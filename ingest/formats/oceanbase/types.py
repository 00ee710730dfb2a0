"""The column types of OceanBase's AvroRecord: what `type_info` and the values show of them.

Source: OceanBase Cloud, "Message formats" of data subscription, data mapping of its MySQL and
Oracle modes; `dataTypeNumber` by the MySQL base that OceanBase's log numberings share
(https://github.com/oceanbase/oblogmsg, include/MetaInfo.h, 163dfc97).

A value shows a word: the name of a type, `(p,s)` for a decimal, None for NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingest.formats.oceanbase.values import BRANCHES, TYPES

_NUMBERS = {
    **{1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp"},
    **{8: "bigint", 9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year"},
    **{14: "date", 245: "json", 249: "tinytext", 250: "mediumtext", 251: "longtext"},
    **{252: "text", 253: "varchar", 254: "char", 255: "geometry"},
}
_PLAIN = frozenset((*range(17), 246, 247, 248, 253, 254))
_LOBS = frozenset((245, 249, 250, 251, 252, 255))
_TEXTS = frozenset(("json", "tinytext", "mediumtext", "longtext", "text", "varchar", "char"))
_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "year"))
_BYTES_OF = {
    **{"tinytext": "tinyblob", "mediumtext": "mediumblob", "longtext": "longblob"},
    **{"text": "blob", "char": "binary"},
}
_STRINGS = {
    **{"ARRAY": "array", "VECTOR": "vector", "SPARSE_VECTOR": "sparsevector", "MAP": "map"},
    **{"ENUM": "enum", "SET": "set", "DECIMAL": "decimal", "LONG": "bigint unsigned"},
    **{"INTEGER": "bigint unsigned", "ROARINGBITMAP": "roaringbitmap"},
    # as the table of the vendor's page has it
    "SPARSEVECTOR": "sparsevector",
}
_OBJECTS = {
    **{"boolean": "boolean", "int": "int", "long": "bigint", "float": "float"},
    **{"double": "double", "bytes": "varbinary", "string": "varchar", "StringObject": "varchar"},
    **{"DecimalObject": "decimal", "DateObject": "date", "TimeObject": "time"},
    **{"DateTimeObject": "datetime", "TimestampObject": "timestamp", "BitObject": "bit"},
    **{"EnumSetValue": "enum", "GeometryValue": "geometry"},
}


def word_of(type_: str, branch: str) -> str | None:
    """The word that a value with the `type_info` `type_` shows in `branch` of the union."""
    if branch == "null":
        return None
    if branch in ("string", "StringObject", "DecimalObject") and type_ in _STRINGS:
        return _STRINGS[type_]
    if branch == "int" and type_ == "LONG":
        return "bigint"
    if branch == "EnumSetValue" and type_ == "SET":
        return "set"
    return _OBJECTS[branch]


WORDS = {
    bytes((2 * kind, 2 * branch)): word_of(type_, name)
    for kind, type_ in enumerate(TYPES)
    for branch, name in enumerate(BRANCHES)
}
"""The bytes of `type_info` and of the union's branch -> the word."""


def source_types(family: str, numbers: Sequence[int]) -> Callable[[int, str | None], str | None]:
    """The type of column `index` whose value showed `word`; see `ShownTypes`."""
    names = [_NUMBERS.get(number) if family == "mysql" else None for number in numbers]
    decimal = "number" if family == "oracle" else "decimal"

    def of(index: int, word: str | None) -> str | None:
        name = names[index]
        if word is None:
            return None if name in _TEXTS and name != "json" else name
        if word[0] == "(" or word == "decimal":
            return decimal + word.removeprefix("decimal")
        if word == "varchar" and name in _TEXTS:
            return name
        if word == "varbinary":
            return _BYTES_OF.get(name or "", word)
        if word == "int" and name in _INTEGERS:
            return name
        if word == "timestamp" and family == "oracle":
            return "timestamp with time zone"
        return word

    return of


def large(numbers: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The positions of large objects: of those that certainly are, and of those that may be."""
    sure = frozenset(index for index, number in enumerate(numbers) if number in _LOBS)
    return sure, frozenset(i for i, number in enumerate(numbers) if number not in _PLAIN)
