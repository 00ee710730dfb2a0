"""What must be set up at the database and the connector, given their present state: sentences and
SQL.

Source: https://debezium.io/documentation/reference/3.6/connectors/postgresql.html and mysql.html,
under "Setting up"; https://github.com/eulerto/wal2json, https://github.com/alibaba/canal,
https://maxwells-daemon.io/quickstart.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.catalogue.model import Catalogue

WANTED_OF_MYSQL = {
    "log_bin": ("ON", "log_bin=ON"),
    "binlog_format": ("ROW", "binlog_format=ROW"),
    "binlog_row_image": ("FULL", "binlog_row_image=FULL"),
}
"""Variable -> the value that row changes need, and the line of my.cnf that sets it."""
_NO_SCHEMAS = (
    "The connector writes JSON without types where value.converter.schemas.enable=false: leave it "
    "at true, or run this again with --types."
)


def advice(catalogue: Catalogue, format_: str) -> Iterator[str]:
    """What must be done before the first run, one thing a text; settings that are right are not
    mentioned."""
    if catalogue.kind == "postgresql":
        yield from _postgresql(catalogue, format_)
    else:
        yield from _mysql(catalogue, format_)
    if format_ == "debezium":
        yield _NO_SCHEMAS
    if format_.startswith("debezium"):
        yield "Set skipped.operations=none at the connector, else truncates are not sent."
        yield (
            "Set the converter's replace.null.with.default=false, else a NULL comes as the default "
            "of its column."
        )


def _postgresql(catalogue: Catalogue, format_: str) -> Iterator[str]:
    settings = catalogue.settings
    if settings.get("wal_level") != "logical":
        yield (
            f"wal_level is {settings.get('wal_level')}: ALTER SYSTEM SET wal_level = logical; "
            "then restart the server."
        )
    for name in ("max_replication_slots", "max_wal_senders"):
        if settings.get(name) == "0":
            yield f"{name} is 0: ALTER SYSTEM SET {name} = 10; then restart the server."
    allowed = settings.get("output_plugin_libraries")
    if format_ == "wal2json" and allowed is not None and "wal2json" not in allowed:
        yield "The server does not let wal2json be used: add it to output_plugin_libraries."
    if not catalogue.may_replicate:
        yield (
            f"{catalogue.user} may not read the log: ALTER ROLE {_quoted(catalogue.user)} "
            "REPLICATION; and let it SELECT from the tables."
        )
    if format_.startswith("debezium") and catalogue.tables:
        listed = ", ".join(_of_postgresql(table.schema, table.name) for table in catalogue.tables)
        yield f"A publication for the connector: CREATE PUBLICATION ingest FOR TABLE {listed};"
    for table in catalogue.tables:
        name = _of_postgresql(table.schema, table.name)
        if table.identity == "nothing" or (table.identity == "default" and not table.key):
            yield (
                f"{name} names no row that is updated or deleted: "
                f"ALTER TABLE {name} REPLICA IDENTITY FULL;"
            )
    if any(table.identity == "default" and table.key for table in catalogue.tables):
        yield (
            "With REPLICA IDENTITY DEFAULT an update sends its key and the new values, without "
            "large ones that it left alone: these stay as they are in gold. Where gold keeps "
            "versions or a key changes, use REPLICA IDENTITY FULL."
        )
    yield (
        "PostgreSQL's log has no schema changes: after a RENAME COLUMN, a DROP COLUMN or a DEFAULT "
        "that fills rows, write the rows once more (UPDATE t SET id = id)."
    )


def _mysql(catalogue: Catalogue, format_: str) -> Iterator[str]:
    settings = catalogue.settings
    for name, (wanted, line) in WANTED_OF_MYSQL.items():
        value = settings.get(name, "not set")
        if value.upper() not in (wanted, "1" if wanted == "ON" else wanted):
            yield f"{name} is {value}: set {line} in the server's configuration, then restart it."
    if settings.get("binlog_row_value_options"):
        yield "binlog_row_value_options is set: JSON comes in parts. Set it to nothing."
    if settings.get("server_id", "0") == "0":
        yield "server_id is 0: set one that no other server or connector has, then restart it."
    if settings.get("binlog_row_metadata", "FULL").upper() != "FULL" and format_ == "canal":
        yield "binlog_row_metadata=FULL lets the log itself name the columns."
    if not catalogue.may_replicate:
        user = catalogue.user.replace("\\", "\\\\").replace("'", "''")
        yield (
            f"{catalogue.user} may not read the log: GRANT SELECT, RELOAD, SHOW DATABASES, "
            f"REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'%';"
        )
    if catalogue.kind == "mariadb" and format_.startswith("debezium"):
        yield "Use Debezium's connector for MariaDB: the one for MySQL refuses its version."
    unsigned = [
        table.name
        for table in catalogue.tables
        if any(
            type_.startswith("bigint") and "unsigned" in type_ for type_ in table.columns.values()
        )
    ]
    if unsigned and format_.startswith("debezium"):
        yield (
            f"BIGINT UNSIGNED in {', '.join(unsigned)}: set bigint.unsigned.handling.mode=precise, "
            "else numbers from 2^63 on come negative."
        )
    keyless = [table.name for table in catalogue.tables if not table.key]
    if keyless:
        yield f"Without a primary key, rows are kept as they came: {', '.join(keyless)}."


def _of_postgresql(schema: str | None, name: str) -> str:
    return f"{_quoted(schema)}.{_quoted(name)}" if schema else _quoted(name)


def _quoted(name: str) -> str:
    if name.isidentifier() and name == name.lower():
        return name
    return '"' + name.replace('"', '""') + '"'
