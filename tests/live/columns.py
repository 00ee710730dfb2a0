"""Column types of real servers, and SQL literals of values at their edges and anywhere between."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Literals = Sequence[str]


class ColumnKind(NamedTuple):
    """A type as CREATE TABLE has it, its edges as SQL, and how any other value is drawn.

    `compared`: how a value in gold is held against the server's. `value` as typed values, `text`
    character by character, `cast` after the server has read gold's text as this type.
    """

    type: str
    edges: Literals
    compared: str = "value"
    between: Callable[[random.Random], str] | None = None


def quoted(text: str) -> str:
    """Text as a literal of PostgreSQL, and of MariaDB with NO_BACKSLASH_ESCAPES."""
    return "'" + text.replace("'", "''") + "'"


def _integer(first: int, last: int) -> Callable[[random.Random], str]:
    return lambda chance: str(chance.randint(first, last))


def _decimal(precision: int, scale: int) -> Callable[[random.Random], str]:
    def draw(chance: random.Random) -> str:
        digits = str(chance.randrange(10 ** chance.randint(1, precision))).zfill(scale + 1)
        whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
        return f"{chance.choice(['', '-'])}{whole}" + (f".{fraction}" if scale else "")

    return draw


def _text(most: int) -> Callable[[random.Random], str]:
    def draw(chance: random.Random) -> str:
        letters = "aZ09 _-%$,;:{}[]()<>/\\|\"'`\t\néß小麦🌾\u0301"
        return quoted("".join(chance.choice(letters) for _ in range(chance.randrange(most))))

    return draw


def _pg_bytes(chance: random.Random) -> str:
    return f"'\\x{chance.randbytes(chance.randrange(40)).hex()}'"


def _my_bytes(chance: random.Random) -> str:
    return f"X'{chance.randbytes(chance.randrange(8)).hex()}'"


def _moment(chance: random.Random, *, last: int = 9999, digits: int = 6) -> str:
    day = (
        f"{chance.randint(1971, last):04d}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    )
    clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    fraction = f".{chance.randrange(10**digits):0{digits}d}" if digits else ""
    return f"'{day} {clock}{fraction}'"


_TEXTS = tuple(
    map(quoted, ("", " ", "null", "NULL", "\\N", "é'\"\\", "小麦🌾", "007.10", "a\r\nb\tc", "{}"))
)
_FLOATS = ("0", "0.1", "-1.5", "1e20", "123456789.125")

POSTGRESQL: Mapping[str, ColumnKind] = {
    "small": ColumnKind("smallint", ("0", "-32768", "32767")),
    "medium": ColumnKind("integer", ("0", "-2147483648", "2147483647")),
    "big": ColumnKind(
        "bigint",
        ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
        between=_integer(-(2**63), 2**63 - 1),
    ),
    "price": ColumnKind(
        "numeric(12,2)", ("0.00", "-0.01", "9999999999.99", "1.10"), between=_decimal(12, 2)
    ),
    "wide": ColumnKind(
        "numeric(38,18)",
        ("0", "0.000000000000000001", "-99999999999999999999.999999999999999999"),
        between=_decimal(38, 18),
    ),
    "huge": ColumnKind(
        "numeric(60,20)", ("0", f"-{'9' * 40}.{'9' * 20}"), between=_decimal(60, 20)
    ),
    "free": ColumnKind("numeric", ("0", "1.1", "12345678901234567890.123456789", "1e-20", "-5e30")),
    "single": ColumnKind("real", (*_FLOATS, "1.17549435e-38", "3.4028235e38", "16777217")),
    "double": ColumnKind(
        "double precision",
        (*_FLOATS, "1.7976931348623157e308", "5e-324", "'-0'", "0.30000000000000004"),
    ),
    "flag": ColumnKind("boolean", ("true", "false")),
    "code": ColumnKind("char(5)", ("'ab'", "''", "'12345'", "' x'"), "text"),
    "label": ColumnKind("varchar(200)", _TEXTS, "text", _text(60)),
    "note": ColumnKind("text", (*_TEXTS, "repeat('long ', 2000)"), "text", _text(300)),
    "data": ColumnKind("bytea", ("''", "'\\x00'", "'\\xfffe00ff'"), between=_pg_bytes),
    "day": ColumnKind(
        "date", ("'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'1969-12-31'", "'2024-02-29'")
    ),
    "clock": ColumnKind("time", ("'00:00'", "'23:59:59.999999'", "'12:00:00.5'"), "cast"),
    "clock3": ColumnKind("time(3)", ("'00:00'", "'23:59:59.999'", "'24:00'"), "cast"),
    "zoned_clock": ColumnKind("timetz", ("'00:00+00'", "'23:59:59.999999+00'"), "cast"),
    "made": ColumnKind(
        "timestamp",
        ("'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1582-10-10 12:00:00.000001'"),
        between=_moment,
    ),
    "made3": ColumnKind(
        "timestamp(3)",
        ("'1900-01-01'", "'9999-12-31 23:59:59.999'"),
        between=lambda chance: _moment(chance, digits=3),
    ),
    "seen": ColumnKind(
        "timestamptz",
        ("'0001-01-01Z'", "'9999-12-31 23:59:59.999999Z'", "'2024-03-31 02:30+02'"),
        between=_moment,
    ),
    "span": ColumnKind(
        "interval",
        ("'0'", "'1 year 2 mons -3 days 04:05:06.789'", "'-1 mon'", "'999 hours'", "'-0.000001 s'"),
        "cast",
    ),
    "ident": ColumnKind("uuid", ("'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()")),
    "doc": ColumnKind(
        "json", ('\'{"a": 1.10,  "b": [null]}\'', "'null'", "'[]'", "'1e400'"), "text"
    ),
    "docb": ColumnKind(
        "jsonb", ('\'{"a": 1.10, "b": [18446744073709551616]}\'', "'null'", "'\"x\"'"), "text"
    ),
    "ints": ColumnKind("integer[]", ("'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'"), "array"),
    "words": ColumnKind(
        "text[]", ("'{}'", "array['a','', NULL, 'é\"\\,{}', 'NULL']", "array['x']"), "array"
    ),
    "sums": ColumnKind("numeric(10,2)[]", ("'{}'", "'{1.10,-0.01,NULL}'"), "array"),
    "days": ColumnKind("date[]", ("'{}'", "'{2024-02-29,1969-12-31}'"), "array"),
    "moments": ColumnKind("timestamptz[]", ("'{}'", "'{\"2024-02-29 12:00:00.5Z\"}'"), "array"),
    "address": ColumnKind("inet", ("'192.168.0.1'", "'10.1.2.3/8'", "'::1'"), "cast"),
    "network": ColumnKind("cidr", ("'10.0.0.0/8'", "'2001:db8::/32'"), "cast"),
    "mac": ColumnKind("macaddr", ("'08:00:2b:01:02:03'",), "cast"),
    "one_bit": ColumnKind("bit(1)", ("B'0'", "B'1'")),
    "ten_bits": ColumnKind("bit(10)", ("B'0000000001'", "B'1000000000'", "B'1111111111'")),
    "many_bits": ColumnKind("bit(70)", (f"B'{'1' * 70}'", f"B'{'0' * 69}1'"), "text"),
    "any_bits": ColumnKind("bit varying(12)", ("B''", "B'101'", "B'000000000001'"), "bits"),
    "mood": ColumnKind("mood", ("'happy'", "'so so'", "'naïve'"), "text"),
    "pay": ColumnKind("money", ("0", "'$1234.50'", "'-92233720368547758.08'"), "cast"),
    "page": ColumnKind("xml", ("'<a b=\"1\">x</a>'", "'text'"), "text"),
    "place": ColumnKind("point", ("'(1.5,-2)'", "'(0.1,1e20)'"), "point"),
    "range": ColumnKind("int4range", ("'empty'", "'[1,5)'", "'(,3]'"), "cast"),
    "period": ColumnKind("tstzrange", ("'[2024-01-01 00:00Z,2024-02-01 00:00Z)'",), "cast"),
    "found": ColumnKind("tsvector", ("'a:1 fat:2 cat:3'", "''"), "cast"),
    "exact": ColumnKind("weight", ("0", "12345.678", "-0.001"), between=_decimal(8, 3)),
    "tags": ColumnKind("hstore", ("''", '\'a=>1, b=>NULL, "c d"=>"e,f"\''), "hstore"),
    "loose": ColumnKind("citext", ("'MiXed'", "''"), "text"),
}
"""Types that PostgreSQL has of its own or by extensions that come with it."""

PREPARED_POSTGRESQL = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE TYPE mood AS ENUM ('happy', 'so so', 'naïve')",
    "CREATE DOMAIN weight AS numeric(8,3)",
)

MYSQL: Mapping[str, ColumnKind] = {
    "tiny": ColumnKind("tinyint", ("0", "-128", "127")),
    "truth": ColumnKind("tinyint(1)", ("0", "1")),
    "tiny_u": ColumnKind("tinyint unsigned", ("0", "255")),
    "small": ColumnKind("smallint", ("-32768", "32767")),
    "small_u": ColumnKind("smallint unsigned", ("0", "65535")),
    "middle": ColumnKind("mediumint", ("-8388608", "8388607")),
    "middle_u": ColumnKind("mediumint unsigned", ("0", "16777215")),
    "medium": ColumnKind("int", ("0", "-2147483648", "2147483647")),
    "medium_u": ColumnKind("int unsigned", ("0", "4294967295", "2147483648")),
    "big": ColumnKind(
        "bigint",
        ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
        between=_integer(-(2**63), 2**63 - 1),
    ),
    "big_u": ColumnKind(
        "bigint unsigned",
        ("0", "18446744073709551615", "9223372036854775808"),
        between=_integer(0, 2**64 - 1),
    ),
    "filled": ColumnKind("int(6) zerofill", ("0", "42", "4294967295")),
    "price": ColumnKind(
        "decimal(12,2)", ("0.00", "-0.01", "9999999999.99", "1.10"), between=_decimal(12, 2)
    ),
    "huge": ColumnKind(
        "decimal(65,30)",
        ("0", f"-{'9' * 35}.{'9' * 30}", "1e-30"),
        between=_decimal(65, 30),
    ),
    "whole": ColumnKind("decimal(65,0)", ("0", "9" * 65, "-" + "9" * 65)),
    "single": ColumnKind("float", ("0", "0.5", "-1.5", "16777216", "3.40282e38", "0.1")),
    "double": ColumnKind("double", (*_FLOATS, "1.7976931348623157e308", "0.30000000000000004")),
    "one_bit": ColumnKind("bit(1)", ("b'0'", "b'1'")),
    "ten_bits": ColumnKind("bit(10)", ("b'1'", "b'1000000000'", "b'1111111111'")),
    "all_bits": ColumnKind("bit(64)", ("0", "18446744073709551615", "9223372036854775808")),
    "year": ColumnKind("year", ("1901", "2155", "1970")),
    "day": ColumnKind("date", ("'1000-01-01'", "'9999-12-31'", "'1969-12-31'", "'2024-02-29'")),
    "made": ColumnKind(
        "datetime",
        ("'1000-01-01'", "'9999-12-31 23:59:59'"),
        between=lambda chance: _moment(chance, digits=0),
    ),
    "made3": ColumnKind(
        "datetime(3)",
        ("'1000-01-01 00:00:00.001'", "'9999-12-31 23:59:59.999'"),
        between=lambda chance: _moment(chance, digits=3),
    ),
    "made6": ColumnKind(
        "datetime(6)",
        ("'1000-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"),
        between=_moment,
    ),
    "seen": ColumnKind(
        "timestamp NULL",
        ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
        between=lambda chance: _moment(chance, last=2037, digits=0),
    ),
    "seen6": ColumnKind(
        "timestamp(6) NULL",
        ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'"),
        between=lambda chance: _moment(chance, last=2037),
    ),
    "clock": ColumnKind(
        "time", ("'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-00:00:01'"), "time"
    ),
    "clock6": ColumnKind(
        "time(6)", ("'00:00:00.000001'", "'838:59:58.999999'", "'-00:00:00.5'"), "time"
    ),
    "code": ColumnKind("char(5)", ("'ab'", "''", "'12345'", "' x'"), "text"),
    "label": ColumnKind("varchar(200)", _TEXTS, "text", _text(60)),
    "latin": ColumnKind("varchar(20) character set latin1", ("'é'", "''", "'ÿß'"), "text"),
    "bytes8": ColumnKind("binary(8)", ("X''", "X'0001'", "X'fffefdfcfbfaf9f8'", "X'61620000'")),
    "bytes": ColumnKind("varbinary(40)", ("X''", "X'00'", "X'fffe00ff'"), between=_my_bytes),
    "tiny_note": ColumnKind("tinytext", _TEXTS, "text"),
    "note": ColumnKind("text", (*_TEXTS, "repeat('long ', 2000)"), "text", _text(300)),
    "long_note": ColumnKind("longtext", ("repeat('小麦', 30000)", "''"), "text"),
    "photo": ColumnKind("blob", ("X''", "X'00'", "X'fffe00ff'"), between=_my_bytes),
    "film": ColumnKind("longblob", ("repeat(X'00ff', 20000)", "X'c3'")),
    "mood": ColumnKind(
        "enum('happy','so so','naïve','it''s')", ("'happy'", "'naïve'", "'it''s'"), "text"
    ),
    "flags": ColumnKind("set('a','b c','é')", ("''", "'a'", "'a,é'", "'a,b c,é'"), "text"),
    "doc": ColumnKind("json", ('\'{"a": 1.10,  "b": [null]}\'', "'[]'", "'\"x\"'"), "text"),
    "place": ColumnKind("point", ("point(1.5,-2)", "point(0.1,1e20)"), "geometry"),
}
"""Types of MariaDB that MySQL has, too."""


def literal(kind: ColumnKind, chance: random.Random) -> str:
    """A value as SQL: NULL, an edge, or anything between."""
    roll = chance.random()
    if roll < 0.12:
        return "NULL"
    if kind.between is not None and roll > 0.6:
        return kind.between(chance)
    return chance.choice(kind.edges)
