"""A type in a source's `columns:` that no database has is a mistake, with the nearest word."""

from __future__ import annotations

import pytest

from ingest.config.source_types import unknown_type
from ingest.values.source_types import parse_type, spark_type, with_labels

TYPES = """
INT UNSIGNED; int(5) unsigned zerofill; uint64; MEDIUMTEXT; mediumtext character set utf8mb4; jsonb;
NUMBER(10,2); VARCHAR2(30 CHAR); TIMESTAMP(6) WITH LOCAL TIME ZONE; INTERVAL DAY(2) TO SECOND(6);
double precision; character varying(20); timestamp without time zone; timetz; hstore; money;
int4[]; text[][]; _int4; integer array; public.citext; MDSYS.SDO_GEOMETRY; enum('a','b)'); set('x');
array<string>; map<string,int>; struct<a:int>; timestamp_ntz; datetimeoffset(7); nvarchar(max);
rowversion; DECFLOAT(34); CHAR(3) FOR BIT DATA; zoned_datetime; INT64; STRING; bit(1); vector(3);
long raw; national character varying(5); objectId; tinyint(1); datetime(6); year; geometry;
NUM(5,2); LONG VARGRAPHIC; datalink; national text; int2vector; refcursor; ARRAY(VARCHAR(30));
array(array(int)); MAP(INT, VARCHAR(3)); row(a varchar(3)); list(integer not null)
"""


@pytest.mark.parametrize("text", [text.strip() for text in TYPES.split(";")])
def test_types_of_databases_pass(text: str) -> None:
    assert unknown_type(text) is None


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("intt", "int"),
        ("varchr(20)", "varchar"),
        ("date_time", "datetime"),
        ("decimel(10,2)", "decimal"),
        ("timestmp", "timestamp"),
        ("jsn", "json"),
    ],
)
def test_a_slip_of_the_pen_is_named(text: str, nearest: str) -> None:
    found = unknown_type(text)
    assert found is not None
    assert f"got `{text}`" in found
    assert found.endswith(f"nearest: {nearest}")


def test_words_that_are_no_type() -> None:
    assert unknown_type("whatever") is not None
    assert unknown_type("price in euro") is not None
    assert unknown_type("decimal(10,2") is not None


@pytest.mark.parametrize(
    ("text", "spark"),
    [("uint8", "int"), ("uint16", "int"), ("uint32", "bigint"), ("uint64", "decimal(20,0)")],
)
def test_unsigned_integers_by_their_bits(text: str, spark: str) -> None:
    assert spark_type(text) == spark


@pytest.mark.parametrize("family", ["mysql", "oracle", "postgres", "db2", "sqlserver"])
def test_a_timestamp_without_time_zone_is_no_instant(family: str) -> None:
    found = spark_type("timestamp(3) without time zone", family)
    assert found == ("binary" if family == "sqlserver" else "timestamp_ntz")
    assert spark_type("timestamp with time zone", family) == "timestamp"


@pytest.mark.parametrize("text", ["INTEGER", "INT", "SMALLINT"])
def test_integers_of_oracle_have_38_digits(text: str) -> None:
    """They are NUMBER(38) by other names (Oracle, SQL Language Reference, "ANSI Data Types")."""
    assert spark_type(text, "oracle") == spark_type("NUMBER(38)", "oracle") == "decimal(38,0)"
    assert spark_type(text, "db2") == "int"


def test_labels_come_back_as_they_were() -> None:
    labels = ("a", "it's", "C:\\new", "\\", "\\'", "a,b", ")", '"', "", "\n", "小麦")
    assert parse_type(with_labels("enum", labels)).members == labels
