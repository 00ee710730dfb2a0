"""Every transport with a server behind it, as one contract sees them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipelines.bronze.remoting.connection import Access
from tests.support.kafka_broker import Broker, Record, create_topic, jaas, produce
from tests.support.rabbitmq_server import PASSWORDS, STREAM, RabbitServer
from tests.support.rocketmq_server import Sent, Server

LARGE = 3 << 20
"""Bytes of a message that every place takes; three times what Kafka's clients fetch at once."""
READER = Access("reader", "secret-word-9")


class Mistake(NamedTuple):
    """What a declaration gets wrong: what stands in it instead, and words of the sentence."""

    what: str
    change: Mapping[str, Any]
    said: str


class Place(Protocol):
    """A topic, queue or folder, with its server."""

    transport: str
    declared: Mapping[str, Any]
    """The value of the transport's key in a source's YAML."""
    again: bool
    """Whether what was read is read again where the checkpoint is lost."""

    def send(self, values: Sequence[bytes]) -> None:
        """Appends messages in order; returns when they are durable."""

    def stop(self) -> None:
        """Ends the server, as a power failure does."""

    def start(self) -> None:
        """Starts it again; returns when it serves."""

    def mistakes(self) -> Sequence[Mistake]:
        """Declarations that are wrong."""


class Served(Place, Protocol):
    """A place with a server of its own."""

    def silence(self) -> None:
        """Nothing comes from the server any more, and no connection ends, as where a network is
        cut."""

    def resume(self) -> None:
        """The server answers again, where it was asked meanwhile, too."""


class Files:
    """A folder: a file for each message, so that a run has many."""

    transport = "files"
    again = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.declared: Mapping[str, Any] = {
            "path": f"{folder}/*.json",
            "framing": "whole",
            "order": "path",
        }

    def send(self, values: Sequence[bytes]) -> None:
        for value in values:
            (self._folder / f"{self._count:06}.json").write_bytes(value)
            self._count += 1

    def stop(self) -> None:
        self._folder.rename(self._folder.with_name("away"))

    def start(self) -> None:
        self._folder.with_name("away").rename(self._folder)

    def mistakes(self) -> Sequence[Mistake]:
        return [Mistake("no folder", {"path": f"{self._folder}/none/*"}, "but there is no")]


class Kafka:
    """A topic of a broker that wants a login."""

    transport = "kafka"
    again = True

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self.declared: Mapping[str, Any] = {
            "bootstrap_servers": broker.listener("SASL_PLAINTEXT"),
            "topics": [topic],
            "max_offsets_per_batch": 200,
            "options": self._login(jaas("SCRAM-SHA-256")),
        }
        create_topic(broker.bootstrap, topic, max_message_bytes=str(2 * LARGE))

    def send(self, values: Sequence[bytes]) -> None:
        produce(self._broker.bootstrap, self._topic, map(Record, values))

    def stop(self) -> None:
        self._broker.kill()

    def start(self) -> None:
        self._broker.start()

    def silence(self) -> None:
        _signal(self._broker.processes, signal.SIGSTOP)

    def resume(self) -> None:
        _signal(self._broker.processes, signal.SIGCONT)

    def mistakes(self) -> Sequence[Mistake]:
        wrong = self._login(jaas("SCRAM-SHA-256", password="wrong-one"))
        blind = self._login(jaas("SCRAM-SHA-256", "blind"))
        return [
            Mistake("no server", {"bootstrap_servers": "127.0.0.1:1"}, "(Connection refused)"),
            Mistake("wrong password", {"options": wrong}, "invalid credentials"),
            Mistake("no permission", {"options": blind}, self._topic),
            Mistake("no topic", {"topics": ["none"]}, "has not all of the topics none"),
        ]

    def _login(self, options: Mapping[str, str]) -> dict[str, str]:
        return {"security.protocol": "SASL_PLAINTEXT", **options}


class Rabbit:
    """A queue of a type."""

    transport = "rabbitmq"

    def __init__(self, server: RabbitServer, queue: str, kind: str) -> None:
        self._server, self._queue = server, queue
        self.again = kind == "stream"
        self.declared: Mapping[str, Any] = {
            "servers": server.address,
            "user": "reader",
            "password": PASSWORDS["reader"],
            "queue_type": kind,
            "queues": [queue],
        }
        types = {"stream": STREAM, "quorum": {"x-queue-type": "quorum"}, "classic": {}}
        server.declare(queue, types[kind])

    def send(self, values: Sequence[bytes]) -> None:
        self._server.publish(self._queue, values)

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.start()
        self._server.await_queue(self._queue)

    def silence(self) -> None:
        self._server.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._server.signal(signal.SIGCONT)

    def mistakes(self) -> Sequence[Mistake]:
        blind = {"user": "blind", "password": PASSWORDS["blind"]}
        return [
            Mistake("no server", {"servers": "127.0.0.1:1"}, "(Connection refused)"),
            Mistake("wrong password", {"password": "wrong-one"}, "refuses the login of 'reader'"),
            Mistake("no permission", blind, f"'blind' may not read the queue '{self._queue}'"),
            Mistake("no queue", {"queues": ["none"]}, "the queue 'none' does not exist"),
        ]


class Rocket:
    """A topic of a broker with access control."""

    transport = "rocketmq"
    again = True

    def __init__(self, server: Server, topic: str) -> None:
        self._server, self._topic = server, topic
        self.declared: Mapping[str, Any] = {
            "name_servers": server.name_server,
            "topics": [topic],
            "access_key": READER.access_key,
            "secret_key": READER.secret_key,
        }
        server.create_topic(topic)

    def send(self, values: Sequence[bytes]) -> None:
        self._server.send(self._topic, map(Sent, values))

    def stop(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()
        self._server.await_topic(self._topic)

    def silence(self) -> None:
        _signal(self._server.processes, signal.SIGSTOP)

    def resume(self) -> None:
        _signal(self._server.processes, signal.SIGCONT)

    def mistakes(self) -> Sequence[Mistake]:
        return [
            Mistake("no server", {"name_servers": "127.0.0.1:1"}, "(Connection refused)"),
            Mistake(
                "wrong password",
                {"secret_key": "wrong-one"},
                "of broker a: check signature failed; correct rocketmq.access_key and secret_key",
            ),
            Mistake(
                "no topic",
                {"topics": [self._topic, "none"]},
                "RocketMQ refuses topic none: No topic route info in name server for the topic:"
                " none; create the topic or correct rocketmq.topics.",
            ),
        ]


def _signal(processes: Iterable[int], which: signal.Signals) -> None:
    for process in processes:
        os.kill(process, which)
