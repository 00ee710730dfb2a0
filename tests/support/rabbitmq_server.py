"""A RabbitMQ server for tests: Debian's, started in a folder of its own, and a way to fill it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pika.exceptions
import pytest

BINARY = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
STARTS_WITHIN = 120.0  # seconds; about 8 on two idle cores
PASSWORDS = {"admin": "s3cret-of-admin", "reader": "s3cret-of-reader", "blind": "s3cret-of-blind"}
"""admin may do everything, reader read, blind nothing; all in the virtual hosts / and cdc."""
STREAM = {"x-queue-type": "stream"}


def install() -> None:
    """Sees that there is a server; skips the test with one line where there is none to be had."""
    if not BINARY.exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        # Nothing is to be started by the package itself.
        command = ["apt-get", "install", "-y", "--no-install-recommends", "rabbitmq-server"]
        subprocess.run(command, env={**os.environ, "RUNLEVEL": "1"}, capture_output=True)
    if not BINARY.exists():
        pytest.skip("no RabbitMQ server here: apt-get install rabbitmq-server")


class RabbitServer:
    """One node; its data outlive a stop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self.tls_port, self._dist, self._epmd = _free_ports(4)
        self._process: subprocess.Popen[bytes] | None = None
        self.ca_file = _certificates(folder)
        self._write_configuration()

    @property
    def address(self) -> str:
        """As `rabbitmq.servers` has it."""
        return f"127.0.0.1:{self.port}"

    @property
    def processes(self) -> list[int]:
        """The id of the process that has all of the node's."""
        return [] if self._process is None else [self._process.pid]

    def start(self) -> None:
        """Starts the node and returns when it serves.

        Raises:
            RuntimeError: it ended or did not serve in time; holds the end of what it printed.
        """
        log = self._folder / "out.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(BINARY)],
                env=self._environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < deadline and self._process.poll() is None:
            if "Starting broker... completed" in log.read_text(errors="replace"):
                return
            time.sleep(0.1)
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"RabbitMQ did not start within {STARTS_WITHIN:.0f} s:\n{end}")

    def stop(self, *, orderly: bool = True) -> None:
        """Ends the node: as an operator does, or as a power failure."""
        if self._process is not None:
            self.signal(signal.SIGTERM if orderly else signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    def signal(self, which: signal.Signals) -> None:
        """Sends a signal to the script and to what it started, a group of their own."""
        assert self._process is not None, "it runs"
        os.killpg(self._process.pid, which)

    def close(self) -> None:
        """Ends the node, and Erlang's name server that it started."""
        self.stop(orderly=False)
        subprocess.run(["epmd", "-kill"], env=self._environment(), capture_output=True)

    def await_queue(self, queue: str) -> None:
        """Returns when a queue can be used again: a moment after its node serves."""
        for _ in range(100):
            try:
                with self.channel() as channel:
                    channel.queue_declare(queue, passive=True)
                return
            except pika.exceptions.ChannelClosedByBroker:
                time.sleep(0.2)
        raise RuntimeError(f"the queue {queue} did not come back")

    @contextmanager
    def channel(self, virtual_host: str = "/") -> Iterator[Any]:
        """A channel of the admin, with confirmed publishing."""
        login = pika.PlainCredentials("admin", PASSWORDS["admin"])
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.port, virtual_host=virtual_host, credentials=login
        )
        with closing(pika.BlockingConnection(parameters)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel

    def declare(
        self, queue: str, arguments: Mapping[str, Any] = STREAM, *, virtual_host: str = "/"
    ) -> None:
        """Makes an empty durable queue."""
        with self.channel(virtual_host) as channel:
            channel.queue_declare(queue, durable=True, arguments=dict(arguments))

    def publish(
        self, queue: str, bodies: Sequence[bytes], *, virtual_host: str = "/", **properties: Any
    ) -> None:
        """Appends persistent messages in their order; returns when the server has them."""
        with self.channel(virtual_host) as channel:
            for body in bodies:
                told = pika.BasicProperties(delivery_mode=2, **properties)
                channel.basic_publish("", queue, body, told)

    def _environment(self) -> dict[str, str]:
        folder = str(self._folder)
        return {
            **os.environ,
            "HOME": folder,
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd),
        }

    def _write_configuration(self) -> None:
        folder = self._folder
        lines = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
            f"ssl_options.certfile = {folder}/server.pem",
            f"ssl_options.keyfile = {folder}/server.key",
            f"load_definitions = {folder}/definitions.json",
        ]
        (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (folder / "plugins").write_text("[].\n")
        hosts = ("/", "cdc")
        permissions = {"admin": (".*", ".*", ".*"), "reader": ("", "", ".*"), "blind": ("", "", "")}
        definitions = {
            "vhosts": [{"name": name} for name in hosts],
            "users": [
                {
                    "name": name,
                    "password_hash": _hashed(password),
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": "",
                }
                for name, password in PASSWORDS.items()
            ],
            "permissions": [
                {"user": user, "vhost": host, "configure": conf, "write": write, "read": read}
                for user, (conf, write, read) in permissions.items()
                for host in hosts
            ],
        }
        (folder / "definitions.json").write_text(json.dumps(definitions))


def _hashed(password: str) -> str:
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _certificates(folder: Path) -> str:
    """A certificate for the name rabbit.test, which is its own authority; gives its file."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    command += ["-subj", "/CN=rabbit.test", "-addext", "subjectAltName=DNS:rabbit.test"]
    command += ["-keyout", str(folder / "server.key"), "-out", str(folder / "server.pem")]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder / "server.pem")


def _free_ports(count: int) -> list[int]:
    """Ports free at this moment, all held at once so that they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
