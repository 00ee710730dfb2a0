"""Real database servers on loopback, each in a temporary folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

STARTS_WITHIN = 60.0  # seconds; two on idle cores
KEEPER = Path(__file__).with_name("keeper.py")
# Debian installs a server's programs beside the path.
POSTGRESQL_BIN = Path("/usr/lib/postgresql/15/bin")
MARIADB_BIN = Path("/usr/sbin")
# Of PostgreSQL 15.20 and later: which plugins a slot may load.
_ALLOWED_PLUGINS = "output_plugin_libraries"


class Server(NamedTuple):
    """Where a server listens, and who may do everything there."""

    kind: str
    port: int
    user: str
    password: str
    database: str

    @property
    def url(self) -> str:
        """How a client names it."""
        return f"{self.kind}://{self.user}:{self.password}@127.0.0.1:{self.port}/{self.database}"


class NotHere(Exception):
    """A server's program is not on this machine; the text says which and what installs it."""


@contextmanager
def postgresql() -> Iterator[Server]:
    """PostgreSQL 15 with logical decoding and wal2json, and an empty database `shop` in UTC.

    Raises:
        NotHere: its programs or the plugin are not installed.
        RuntimeError: it did not start; holds the end of its log.
    """
    program = POSTGRESQL_BIN / "postgres"
    if not program.exists():
        raise NotHere("PostgreSQL 15 is not installed: apt-get install postgresql-15")
    if not (POSTGRESQL_BIN.parent / "lib/wal2json.so").exists():
        raise NotHere("wal2json is not installed: apt-get install postgresql-15-wal2json")
    with _folder("postgres") as (folder, account):
        data = folder / "data"
        initdb = [str(POSTGRESQL_BIN / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
        _as(account, [*initdb, "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync"], folder)
        port = free_port()
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "wal_level": "logical",
            "max_replication_slots": 20,
            "max_wal_senders": 20,
            "max_connections": 60,
            "fsync": "off",
            "timezone": "UTC",
            "shared_buffers": "64MB",
        }
        command = [str(program), "-D", str(data)]
        if _knows(account, [*command, "-C", _ALLOWED_PLUGINS], folder):
            settings[_ALLOWED_PLUGINS] = "pgoutput, wal2json"
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        server = Server("postgresql", port, "postgres", "x", "shop")
        with _kept(folder, account, command):
            _wait_for(lambda: _postgresql(server, "postgres"), folder / "server.log")
            with _postgresql(server, "postgres") as connection:
                connection.execute("CREATE DATABASE shop")
            yield server


@contextmanager
def mariadb() -> Iterator[Server]:
    """MariaDB 10.11 with a binary log of rows, and an empty database `shop` in UTC.

    It tells clients that it is MySQL 5.7: Debezium's MySQL connector asks a newer one for
    statements that MariaDB has not, and of an older one nothing that it lacks.

    Raises:
        NotHere: its programs are not installed.
        RuntimeError: it did not start; holds the end of its log.
    """
    program = MARIADB_BIN / "mariadbd"
    if not program.exists():
        raise NotHere("MariaDB is not installed: apt-get install mariadb-server")
    with _folder("mysql") as (folder, account):
        data = folder / "data"
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}"]
        _as(account, [*install, "--auth-root-authentication-method=normal"], folder)
        port = free_port()
        settings = {
            "datadir": data,
            "socket": folder / "server.sock",
            "pid-file": folder / "server.pid",
            "port": port,
            "bind-address": "127.0.0.1",
            "version": "5.7.19-MariaDB-log",
            "server-id": 11,
            "log-bin": "binlog",
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "binlog_row_metadata": "FULL",
            "binlog_annotate_row_events": "OFF",
            "gtid_strict_mode": "ON",
            "character-set-server": "utf8mb4",
            "collation-server": "utf8mb4_bin",
            "default-time-zone": "+00:00",
            "max_allowed_packet": "64M",
            "innodb_buffer_pool_size": "64M",
            "innodb_flush_log_at_trx_commit": 0,
        }
        command = [str(program), "--no-defaults"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        server = Server("mysql", port, "ingest", "x", "shop")
        with _kept(folder, account, command):
            root = server._replace(user="root", password="", database="")
            _wait_for(lambda: _mysql(root), folder / "server.log")
            with _mysql(root) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE shop")
                cursor.execute("CREATE USER ingest@'127.0.0.1' IDENTIFIED BY 'x'")
                cursor.execute("GRANT ALL ON *.* TO ingest@'127.0.0.1'")
            yield server


def connect(server: Server) -> Any:
    """A connection that commits each statement by itself."""
    if server.kind == "postgresql":
        return _postgresql(server, server.database)
    return _mysql(server)


def free_port() -> int:
    """A port that is free at this moment."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _postgresql(server: Server, database: str) -> Any:
    import psycopg

    return psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user=server.user,
        dbname=database,
        autocommit=True,
        connect_timeout=5,
    )


def _mysql(server: Server) -> Any:
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=server.user,
        password=server.password,
        database=server.database or None,
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=5,
    )


@contextmanager
def _folder(account: str) -> Iterator[tuple[Path, str]]:
    """A folder of the account that a server runs as: its own for root, else one's own.

    Temporary folders of the tests are closed to others, so it lies beside them.
    """
    folder = Path(tempfile.mkdtemp(prefix="ingest-live-"))
    if os.getuid() == 0:
        shutil.chown(folder, account, account)
    else:
        account = "-"
    try:
        yield folder, account
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as(account: str, command: list[str], folder: Path) -> None:
    done = _ended(account, command, folder)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _knows(account: str, command: list[str], folder: Path) -> bool:
    """Whether a server prints the value of a setting that its minor version may not have yet."""
    return _ended(account, command, folder).returncode == 0


def _ended(account: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    identity: dict[str, Any] = {}
    if account != "-":
        identity = {"user": account, "group": account, "extra_groups": []}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, **identity)


@contextmanager
def _kept(folder: Path, account: str, command: list[str]) -> Iterator[None]:
    keeper = subprocess.Popen(
        [sys.executable, str(KEEPER), str(folder), account, *command], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait(30)


def _wait_for(connect: Callable[[], Any], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            connect().close()
            return
        except Exception as error:
            if time.monotonic() > deadline:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                raise RuntimeError(f"the server did not start: {error}\n{end}") from error
        time.sleep(0.2)
