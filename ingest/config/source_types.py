"""The names of column types that the databases read here have, and Spark's.

A source's `columns:` may name any of them; a name that no database has is a slip of the pen, and
would silently make its column text. Lists: MySQL 8.4, MariaDB 11, TiDB, OceanBase, Oracle 23ai,
PostgreSQL 17, SQL Server 2022, Db2 11.5, Informix 14, MongoDB, AWS DMS, StreamX, Spark 4.
"""

from __future__ import annotations

import re

from ingest.config.mistakes import nearest
from ingest.values.source_types import is_qualified_datetime, parse_type

_KNOWN = frozenset(
    """
    tinyint smallint mediumint int integer bigint int1 int2 int3 int4 int8 int16 int24 int32 int64
    int128 int256 uint uint1 uint2 uint4 uint8 uint16 uint24 uint32 uint64 uint128 uint256 byte
    short long middleint serial serial2 serial4 serial8 smallserial bigserial year bool boolean bit
    varbit
    decimal numeric number fixed dec decfloat money smallmoney float double real float4 float8
    float16 float32 float64 binary_float binary_double binary_integer pls_integer
    char character nchar varchar varchar2 nvarchar nvarchar2 nvarchar3 bpchar string text tinytext
    mediumtext longtext ntext citext name clob nclob dbclob graphic vargraphic longvarchar
    longnvarchar character_varying enum set uniqueidentifier uuid guid inet4 inet6 rowid urowid
    blob tinyblob mediumblob longblob binary varbinary longvarbinary bytea raw image rowversion
    bfile bytes hash
    date time datetime datetime2 smalldatetime timestamp timestamptz timetz timestamp_ntz
    timestamp_ltz timestamp_tz datetimeoffset zoned_datetime interval zoned_timestamp instant
    interval_day_to_second interval_year_to_month abstime reltime duration
    json jsonb jsonpath xml xmltype bson variant void null
    geometry geography point linestring line lseg polygon path box circle multipoint
    multilinestring multipolygon geometrycollection geomcollection sdo_geometry st_geometry
    st_point raster hierarchyid vector halfvec sparsevec floatvector sparse_vector sparsevector
    array map struct row roaringbitmap hstore ltree lquery ltxtquery tsvector tsquery cidr inet
    macaddr macaddr8 oid xid xid8 cid tid pg_lsn txid_snapshot pg_snapshot regclass regproc
    regprocedure regoper regoperator regtype regrole regnamespace regconfig regdictionary
    int4range int8range numrange tsrange tstzrange daterange int4multirange int8multirange
    nummultirange tsmultirange tstzmultirange datemultirange cube seg isbn issn ean13 semver
    sql_variant sysname cursor table anydata anytype uritype httpuritype rowtype
    objectid object document int_32 decimal128 regex javascript symbol minkey maxkey
    wstring unsigned signed lvarchar smallfloat multiset list num datalink timeseries
    int2vector oidvector refcursor aclitem regcollation pg_node_tree
    """.split()
)
_WORDS = (
    "double precision",
    "long raw",
    "long varchar",
    "long varbinary",
    "character varying",
    "char varying",
    "national character",
    "national char",
    "national varchar",
    "binary varying",
    "national character varying",
    "national char varying",
    "nchar varying",
    "bit varying",
    "character large object",
    "char large object",
    "binary large object",
    "char byte",
    "timestamp with time zone",
    "timestamp with local time zone",
    "timestamp ltz",
    "time with time zone",
    "interval year to month",
    "interval day to second",
    "interval day",
    "interval year",
    "interval month",
    "interval hour",
    "interval minute",
    "interval second",
    "long byte",
    "char for bit data",
    "varchar for bit data",
    "long char",
    "long vargraphic",
    "national text",
)
_OF_OTHERS = re.compile(r"(array|map|row|struct|set|list|multiset)\s*\(.*\)\s*", re.DOTALL)
"""Types made of others, whose parentheses hold those of others: `ARRAY(VARCHAR(30))`."""
_TAIL = re.compile(r"(?:\s*\[\s*\d*\s*\])+\s*$|\s+array\s*$", re.IGNORECASE)
_INSIDE = re.compile(r"\s*<.*", re.DOTALL)


def unknown_type(text: str) -> str | None:
    """What is wrong with a column type that no database has; None if one has it."""
    plain = _INSIDE.sub("", _TAIL.sub("", text))
    name = parse_type(plain).name.replace('"', "").replace("`", "")
    # Owners stand before a type: `public.citext`, `MDSYS.SDO_GEOMETRY`; Connect's are a class.
    if name.startswith(("io.debezium.", "org.apache.kafka.")):
        return None
    name = name.rpartition(".")[2]
    first = name.split(" ")[0]
    if name in _KNOWN or name in _WORDS or name.removeprefix("_") in _KNOWN:
        return None
    if is_qualified_datetime(name) or _OF_OTHERS.fullmatch(name):
        return None
    if first == "interval" or (first in _KNOWN and name.endswith(_ENDINGS)):
        return None
    wanted = "expected a column type of the source's database or of Spark"
    return f"{wanted}, got `{text}`{nearest(name, (*sorted(_KNOWN), *_WORDS))}"


_ENDINGS = ("zone", "varying", "object", "data", "byte", "precision", "character set", "unicode")
