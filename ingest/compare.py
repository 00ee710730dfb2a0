"""Two relations with the same columns, compared: a count and a hash of each, then what differs.

The hash is the sum over all rows of a 64-bit hash of each row, so the order of rows does not matter
and a row that is there twice counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.casts import sql_text
from ingest.shape import column

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


def summary(rows: str, columns: Sequence[str], *, seen: str | None = None) -> str:
    """SQL of one row: `n` and `hash` of the relation `rows` over `columns`.

    `seen` names a column that is looked at in every row, but not compared.
    """
    values = ", ".join(map(column, columns))
    looked = f", max({column(seen)}) AS seen" if seen is not None else ""
    return (
        f"SELECT count(*) AS n, coalesce(sum(CAST(xxhash64({values}) AS decimal(38,0))), 0) AS hash"
        f"{looked} FROM {rows}"
    )


def differences(found: str, expected: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """SQL of the rows that differ: kind, columns, and both rows as structs, null where there is
    none.

    `missing` rows are expected and not found, `extra` ones the reverse; of `different` ones
    `columns` are those whose values differ. Rows that have the same key are told apart by a number,
    `_nth`, that both relations bring.
    """
    same = " AND ".join(f"f.{column(name)} <=> e.{column(name)}" for name in [*keys, "_nth"])
    unequal = ", ".join(
        f"IF(f.{column(name)} <=> e.{column(name)}, NULL, {sql_text(name)})" for name in columns
    )
    compared = ", ".join(f"{{side}}.{column(name)}" for name in [*keys, *columns])
    found_row, expected_row = (compared.format(side=side) for side in "fe")
    return f"""SELECT * FROM (SELECT
  CASE WHEN f._nth IS NULL THEN '{MISSING}' WHEN e._nth IS NULL THEN '{EXTRA}'
    ELSE '{DIFFERENT}' END AS kind,
  IF(f._nth IS NULL OR e._nth IS NULL, NULL,
    array_compact(CAST(array({unequal}) AS array<string>))) AS columns,
  IF(f._nth IS NULL, NULL, struct({found_row})) AS found,
  IF(e._nth IS NULL, NULL, struct({expected_row})) AS expected
FROM {found} f FULL OUTER JOIN {expected} e ON {same})
WHERE columns IS NULL OR size(columns) > 0"""
