"""A Kafka broker for tests: one process in KRaft mode, started from jars, and a way to fill it."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipelines.platform.jars import fetch
from pipelines.platform.java import find_java

LOCK = Path(__file__).with_name("kafka_broker.jars")
STARTS_WITHIN = 60.0  # seconds; about 5 on two idle cores


class Record(NamedTuple):
    """One message to produce. `timestamp`: milliseconds of the epoch, above 0; None is now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    timestamp: int | None = None


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Runs a broker that keeps its data in `folder`; gives its bootstrap servers.

    Raises:
        RuntimeError: it ended or did not listen in time; holds the end of its log.
    """
    port, controller = _free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_properties(folder / "data", port=port, controller=controller))
    command = [str(find_java() / "bin" / "java"), "-Xmx384m", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", os.pathsep.join(map(str, fetch(LOCK)))]
    log = folder / "broker.log"
    with log.open("ab") as output:
        formatting = ["kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c"]
        subprocess.run(
            [*command, *formatting, str(properties)], check=True, stdout=output, stderr=output
        )
        process = subprocess.Popen(
            [*command, "kafka.Kafka", str(properties)], stdout=output, stderr=output
        )
    try:
        _wait_for(process, log)
        yield f"127.0.0.1:{port}"
    finally:
        # Nothing is to be kept: no orderly shutdown, which takes seconds.
        process.kill()
        process.wait()


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    """Makes an empty topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    made[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, records: Iterable[Record]) -> None:
    """Appends records in their order and returns when the broker has them all.

    Each record goes to the partition it names; offsets count from 0 within each.

    Raises:
        RuntimeError: the broker refused some.
    """
    # One request under way and none sent twice: nothing is doubled or overtaken.
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "max.in.flight": 1}
    )
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    for record in records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.partition,
            on_delivery=delivered,
            # The client reads 0 as "now".
            timestamp=record.timestamp or 0,
        )
        producer.poll(0)
    waiting = producer.flush(30)
    if refused or waiting:
        raise RuntimeError(f"{topic}: {waiting} records not delivered; refused: {refused[:3]}")


def _properties(data: Path, *, port: int, controller: int) -> str:
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={data}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
            "log.retention.ms=-1",
            # Tests write records of any age.
            "log.message.timestamp.before.max.ms=9223372036854775807",
            "log.message.timestamp.after.max.ms=9223372036854775807",
            "",
        ]
    )


def _wait_for(process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until the broker says that it serves; an open port alone comes too early."""
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        if "Kafka Server started" in log.read_text(errors="replace"):
            return
        time.sleep(0.1)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"the Kafka broker did not start within {STARTS_WITHIN:.0f} s:\n{end}")


def _cluster_id() -> str:
    # Kafka's own: 22 characters of URL-safe base64. It must not begin with a dash.
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


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
