"""The catalogue of MySQL and MariaDB: tables, keys, types, and how the binary log is kept.

Source: https://dev.mysql.com/doc/refman/8.4/en/information-schema.html
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import Any

from ingest.errors import PlatformError
from pipelines.catalogue.address import Address
from pipelines.catalogue.model import Catalogue, CatalogueTable

SETTINGS = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "server_id",
    "binlog_row_value_options",
    "version",
)
_TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name
"""
_COLUMNS = """
SELECT table_name, column_name, column_type FROM information_schema.columns
WHERE table_schema = %s ORDER BY table_name, ordinal_position
"""
_KEYS = """
SELECT table_name, column_name FROM information_schema.key_column_usage
WHERE table_schema = %s AND constraint_name = 'PRIMARY' ORDER BY table_name, ordinal_position
"""
# MariaDB keeps JSON as text with this check.
_CHECKED = """
SELECT table_name, check_clause FROM information_schema.check_constraints
WHERE constraint_schema = %s
"""
_JSON = re.compile(r"json_valid\(`([^`]+)`\)", re.IGNORECASE)


def read(address: Address) -> Catalogue:
    """Reads the catalogue in a transaction that cannot write.

    Raises:
        PlatformError: the driver or the server is not there, or does not let the user in.
    """
    try:
        import pymysql
    except ImportError:
        text = "reading MySQL's catalogue needs PyMySQL: pip install 'delta-cdc-ingest[databases]'"
        raise PlatformError(text) from None
    try:
        connection: Any = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password or os.environ.get("MYSQL_PWD", ""),
            database=address.database,
            connect_timeout=10,
            charset="utf8mb4",
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("START TRANSACTION READ ONLY")
            return _read(cursor, address)
    except (pymysql.Error, RuntimeError) as error:
        reason = error.args[-1] if error.args else type(error).__name__
        raise PlatformError(f"{address}: cannot be read: {reason}") from error


def _read(cursor: Any, address: Address) -> Catalogue:
    def asked(query: str) -> list[tuple[str, ...]]:
        cursor.execute(query, (address.database,))
        return list(cursor.fetchall())

    names = [name for (name,) in asked(_TABLES)]
    columns: dict[str, dict[str, str]] = defaultdict(dict)
    for table, name, type_ in asked(_COLUMNS):
        columns[table][name] = type_
    keys: dict[str, list[str]] = defaultdict(list)
    for table, name in asked(_KEYS):
        keys[table].append(name)
    settings = _settings(cursor)
    mariadb = "mariadb" in settings["version"].lower()
    if mariadb:
        for table, clause in asked(_CHECKED):
            for name in _JSON.findall(clause):
                if columns[table].get(name) == "longtext":
                    columns[table][name] = "json"
    cursor.execute("SHOW GRANTS")
    grants = " ".join(row[0].upper() for row in cursor.fetchall())
    return Catalogue(
        kind="mariadb" if mariadb else "mysql",
        version=settings["version"],
        database=address.database,
        user=address.user,
        tables=tuple(
            CatalogueTable(None, name, columns[name], tuple(keys[name])) for name in names
        ),
        settings=settings,
        may_replicate="REPLICATION SLAVE" in grants or "ALL PRIVILEGES ON *.*" in grants,
    )


def _settings(cursor: Any) -> dict[str, str]:
    cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", (SETTINGS,))
    return {str(name).lower(): str(value) for name, value in cursor.fetchall()}
