"""PostgreSQL's catalogue: tables, keys, types, replica identities, and what replication needs.

Source: https://www.postgresql.org/docs/current/catalogs.html
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from ingest.errors import PlatformError
from pipelines.catalogue.address import Address
from pipelines.catalogue.model import Catalogue, CatalogueTable

SETTINGS = (
    "wal_level",
    "max_replication_slots",
    "max_wal_senders",
    "output_plugin_libraries",
    "server_version",
)
_IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
# Partitions are written under the name of their table; views and foreign tables have no log.
_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relreplident
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY n.nspname, c.relname
"""
# Messages have the base type of a domain.
_COLUMNS = """
SELECT a.attrelid, a.attname,
       CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
                      WHEN 'e' THEN 'text' ELSE format_type(a.atttypid, a.atttypmod) END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = ANY(%s)
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT i.indrelid, a.attname
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indisprimary AND i.indrelid = ANY(%s)
ORDER BY i.indrelid, k.place
"""


def read(address: Address) -> Catalogue:
    """Reads the catalogue in a session that cannot write.

    Raises:
        PlatformError: the driver or the server is not there, or does not let the user in.
    """
    try:
        import psycopg
    except ImportError:
        text = "PostgreSQL's catalogue needs psycopg: pip install 'delta-cdc-ingest[databases]'"
        raise PlatformError(text) from None
    try:
        connection: Any = psycopg.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password or os.environ.get("PGPASSWORD"),
            dbname=address.database,
            connect_timeout=10,
            options="-c default_transaction_read_only=on",
        )
        with connection:
            return _read(connection, address)
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise PlatformError(f"{address}: cannot be read: {reason}") from error


def _read(connection: Any, address: Address) -> Catalogue:
    found = connection.execute(_TABLES).fetchall()
    oids = [row[0] for row in found]
    columns: dict[int, dict[str, str]] = defaultdict(dict)
    for oid, name, type_ in connection.execute(_COLUMNS, (oids,)):
        columns[oid][name] = type_
    keys: dict[int, list[str]] = defaultdict(list)
    for oid, name in connection.execute(_KEYS, (oids,)):
        keys[oid].append(name)
    settings = connection.execute(
        "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(SETTINGS),)
    ).fetchall()
    (may,) = connection.execute(
        "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    return Catalogue(
        kind="postgresql",
        version=dict(settings)["server_version"],
        database=address.database,
        user=address.user,
        tables=tuple(
            CatalogueTable(schema, name, columns[oid], tuple(keys[oid]), _IDENTITIES[identity])
            for oid, schema, name, identity in found
        ),
        settings=dict(settings),
        may_replicate=may,
    )
