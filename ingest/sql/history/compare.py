"""Two relations with the same columns, compared: first by count and hash, then row by row.

The hash is the sum over all rows of a 64-bit hash of each row, so the order of rows does not
matter, and a row that is there twice counts twice. Which values are NULL is hashed as well, since
`xxhash64` passes over NULLs wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingest.sql.casts import typed, zero_date
from ingest.sql.query import select
from ingest.sql.quoting import quoted, quoted_list, sql_text

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


def summary(rows: str, columns: Sequence[str]) -> str:
    """SQL of one row: the count `n` and the `hash` of the relation `rows` over `columns`."""
    nulls = ", ".join(f"{quoted(name)} IS NULL" for name in columns)
    values = f"{quoted_list(columns)}, array({nulls})"
    return (
        f"SELECT count(*) AS n, coalesce(sum(CAST(xxhash64({values}) AS decimal(38,0))), 0) AS hash"
        f" FROM {rows}"
    )


def differences(found: str, expected: str, keys: Sequence[str], *, columns: Sequence[str]) -> str:
    """SQL of the rows that differ: kind, columns, and both rows as structs, null if there is none.

    `missing` rows are expected and not found, `extra` rows the reverse; for `different` rows,
    `columns` are those whose values differ. Both relations bring their columns as the struct
    `held`, and a number, `nth`, that tells the rows of one key apart.
    """
    equal = [f"f.held.{quoted(name)} <=> e.held.{quoted(name)}" for name in keys]
    same = " AND ".join([*equal, "f.nth = e.nth"])
    unequal = ", ".join(
        f"IF(f.held.{quoted(name)} <=> e.held.{quoted(name)}, NULL, {sql_text(name)})"
        for name in columns
    )
    compared = ", ".join(f"{{side}}.held.{quoted(name)}" for name in [*keys, *columns])
    found_row, expected_row = (compared.format(side=side) for side in "fe")
    return f"""SELECT * FROM (SELECT
  CASE WHEN f.nth IS NULL THEN '{MISSING}' WHEN e.nth IS NULL THEN '{EXTRA}'
    ELSE '{DIFFERENT}' END AS kind,
  IF(f.nth IS NULL OR e.nth IS NULL, NULL,
    array_compact(CAST(array({unequal}) AS array<string>))) AS columns,
  IF(f.nth IS NULL, NULL, struct({found_row})) AS found,
  IF(e.nth IS NULL, NULL, struct({expected_row})) AS expected
FROM {found} f FULL OUTER JOIN {expected} e ON {same})
WHERE columns IS NULL OR size(columns) > 0"""


def as_target(value: str, from_: str, to: str, *, zone: str | None) -> str:
    """SQL of a snapshot's value, of Spark type `from_`, as the target's type `to`.

    Texts are read as canonical texts; `zone` is the zone of times that name none. A value that does
    not fit without loss ends the query with an error that names it: a comparison that guesses
    proves nothing.
    """
    if from_ == to:
        return value
    if from_ in ("timestamp_ntz", "date") and to == "timestamp":
        value, from_ = f"CAST({value} AS string)", "string"
    # Spark's own casts of instants depend on the session's zone.
    in_utc = f"timestampadd(MICROSECOND, unix_micros({value}), TIMESTAMP_NTZ '1970-01-01')"
    if from_ == "timestamp" and to in ("timestamp_ntz", "date"):
        shifted = f"convert_timezone('UTC', {sql_text(zone or 'UTC')}, {in_utc})"
        return as_target(shifted, "timestamp_ntz", to, zone=zone)
    if to == "string":
        return f"CAST({in_utc if from_ == 'timestamp' else value} AS string)"
    if from_ == "string":
        found = typed(value, to, zone)
        fits = f"({found}) IS NOT NULL"
        zero = zero_date(value, to)
        fits = f"({fits} OR {zero})" if zero else fits
    else:
        found = f"try_cast({value} AS {to})"
        fits = f"coalesce(try_cast({found} AS {from_}) = {value}, false)"
    wrong = (
        f"raise_error(concat('expected {to} in the snapshot, got ', "
        f"left(CAST({value} AS string), 200)))"
    )
    return f"IF({value} IS NULL OR {fits}, {found}, {wrong})"


def numbered(rows: str, keys: Sequence[str], *, columns: Sequence[str], order: str) -> str:
    """The rows of a relation as `differences` takes them: `held` with all keys and columns, and
    `nth`, their number by `order` among the rows with the same keys."""
    held = quoted_list([*keys, *columns])
    by = quoted_list(keys)
    nth = f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS nth"
    return f"(SELECT struct({held}) AS held, {nth} FROM {rows})"


def by_kind(differences: str) -> str:
    """How many differences there are of each kind."""
    return f"SELECT kind, count(*) FROM ({differences}) GROUP BY kind"


def at_version(table: str, version: int) -> str:
    """A table as it was at a version, as a relation."""
    return f"{table} VERSION AS OF {version}"


def narrowed(rows: str, columns: Sequence[str], where: str) -> str:
    """Some columns of those rows of a relation for which `where` is true, as a relation."""
    return f"({select(rows, where, columns=quoted_list(columns))})"


def with_texts(rows: str, texts: Iterable[tuple[str, str]], *, named: str) -> str:
    """The rows of a relation with one more column, called `named`: a map of names and values
    (SQL)."""
    pairs = ", ".join(f"{sql_text(name)}, {value}" for name, value in texts)
    return f"SELECT *, map({pairs}) AS {named} FROM {rows}"
