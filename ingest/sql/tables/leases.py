"""The table `_leases` of a catalog's warehouse, with a row for each lease."""

from __future__ import annotations

from ingest.sql.quoting import sql_text


def newest(leases: str, name: str) -> str:
    """What the table says of a lease: (number, holder, beat)."""
    return f"SELECT number, holder, beat FROM {leases} WHERE lease = {sql_text(name)}"


def parts(leases: str, name: str) -> str:
    """The names of the leases on parts of what this lease covers: (lease)."""
    return f"SELECT lease FROM {leases} WHERE startswith(lease, {sql_text(f'{name}/')}) ORDER BY 1"


def take(leases: str, name: str, *, number: int, holder: str) -> str:
    """The MERGE that enters the next holder of a lease, unless somebody else was faster."""
    values = f"{sql_text(name)} AS lease, CAST({number} AS bigint) AS number"
    return (
        f"MERGE INTO {leases} t USING (SELECT {values}, {sql_text(holder)} AS holder, "
        "CAST(0 AS bigint) AS beat) s "
        f"ON t.lease = s.lease AND t.lease = {sql_text(name)} "
        "WHEN MATCHED AND t.number = s.number - 1 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )


def beat(leases: str, name: str, *, number: int, count: int) -> str:
    """The UPDATE that says that the holder of a lease is alive."""
    return (
        f"UPDATE {leases} SET beat = {count} WHERE lease = {sql_text(name)} AND number = {number}"
    )
