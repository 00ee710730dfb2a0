"""A Kafka broker for tests: one process in KRaft mode, started from jars, and a way to fill it.

Its plain listener lets everybody in. Beside it there are one with logins and one with them behind
TLS, by PLAIN, SCRAM and OAUTHBEARER (whose tokens nobody signs).
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipelines.platform.jars import fetch
from pipelines.platform.java import find_java

LOCK = Path(__file__).with_name("kafka_broker.jars")
STARTS_WITHIN = 60.0  # seconds; about 5 on two idle cores
PASSWORDS = {"reader": "s3cret-of-reader", "blind": "s3cret-of-blind"}
"""By PLAIN and SCRAM. reader may do everything, blind sees no topic."""
STORE_PASSWORD = "of-the-store"


class Record(NamedTuple):
    """One message to produce. `timestamp`: milliseconds of the epoch, above 0; None is now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    timestamp: int | None = None


class Broker:
    """One broker, and what a client has to know of it; its data outlive a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        names = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER")
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.ca_file = _certificates(folder)
        self._properties = folder / "server.properties"
        self._properties.write_text(_properties(folder, self._ports))
        self._command = [str(find_java() / "bin" / "java"), "-Xmx384m", "-XX:TieredStopAtLevel=1"]
        self._command += ["-cp", os.pathsep.join(map(str, fetch(LOCK)))]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "broker.log"
        self._run_format()

    @property
    def bootstrap(self) -> str:
        """The servers of the listener that lets everybody in."""
        return f"127.0.0.1:{self._ports['PLAINTEXT']}"

    def listener(self, protocol: str) -> str:
        """The servers of another listener, by its `security.protocol`."""
        return f"localhost:{self._ports[protocol]}"

    @property
    def processes(self) -> list[int]:
        """The id of its process."""
        return [] if self._process is None else [self._process.pid]

    def start(self) -> None:
        """Starts it and returns when it serves.

        Raises:
            RuntimeError: it ended or did not listen in time; holds the end of its log.
        """
        begun = self._log.stat().st_size
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._command, "kafka.Kafka", str(self._properties)], stdout=output, stderr=output
            )
        _wait_for(self._process, self._log, begun)

    def kill(self) -> None:
        """Ends it as a power failure does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _run_format(self) -> None:
        scram = [
            part
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in PASSWORDS.items()
            for part in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        formatting = ["kafka.tools.StorageTool", "format", "-t", _cluster_id(), *scram, "-c"]
        with self._log.open("ab") as output:
            command = [*self._command, *formatting, str(self._properties)]
            subprocess.run(command, check=True, stdout=output, stderr=output)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Runs a broker that keeps its data in `folder`.

    Raises:
        RuntimeError: it ended or did not listen in time; holds the end of its log.
    """
    running = Broker(folder)
    try:
        running.start()
        yield running
    finally:
        # Nothing is to be kept: no orderly shutdown, which takes seconds.
        running.kill()


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1, **settings: str) -> None:
    """Makes an empty topic, and returns when the broker shows it; `settings` are its own, with _
    for a dot."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    made = admin.create_topics([new])
    made[topic].result(timeout=30)
    deadline = time.monotonic() + 30
    while topic not in admin.list_topics(timeout=10).topics and time.monotonic() < deadline:
        time.sleep(0.05)


def produce(bootstrap: str, topic: str, records: Iterable[Record]) -> None:
    """Appends records in their order and returns when the broker has them all.

    Each record goes to the partition it names; offsets count from 0 within each.

    Raises:
        RuntimeError: the broker refused some.
    """
    # One request under way and none sent twice: nothing is doubled or overtaken.
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "retries": 0,
            "max.in.flight": 1,
            "message.max.bytes": 1 << 27,
        }
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


def delete_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic, and returns when the broker knows no such any more."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(timeout=30)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics and time.monotonic() < deadline:
        time.sleep(0.1)


def age_out(bootstrap: str, topic: str, lowest: int, *, partition: int = 0) -> None:
    """Removes the messages below an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, partition, lowest)]).values():
        done.result(timeout=30)


def jaas(mechanism: str, user: str = "reader", password: str | None = None) -> dict[str, str]:
    """The client options of a login."""
    package = "org.apache.kafka.common.security"
    if mechanism == "OAUTHBEARER":
        module, said = (
            "oauthbearer.OAuthBearerLoginModule",
            f'unsecuredLoginStringClaim_sub="{user}"',
        )
    else:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        said = f'username="{user}" password="{password or PASSWORDS[user]}"'
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{package}.{module} required {said};",
    }


def _properties(folder: Path, ports: Mapping[str, int]) -> str:
    plain = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    modules = {
        "plain": f"plain.PlainLoginModule required {plain};",
        "scram-sha-256": "scram.ScramLoginModule required;",
        "scram-sha-512": "scram.ScramLoginModule required;",
        "oauthbearer": "oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
    }
    package = "org.apache.kafka.common.security"
    listeners = ",".join(
        f"{name}://{'localhost' if 'SASL' in name else '127.0.0.1'}:{port}"
        for name, port in ports.items()
    )
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{ports['CONTROLLER']}",
            f"listeners={listeners}",
            f"advertised.listeners={listeners.partition(',CONTROLLER')[0]}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map="
            + ",".join(f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in ports),
            f"sasl.enabled.mechanisms={','.join(modules).upper()}",
            *(
                f"listener.name.{name}.{mechanism}.sasl.jaas.config={package}.{module}"
                for name in ("sasl_plaintext", "sasl_ssl")
                for mechanism, module in modules.items()
            ),
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={folder / 'broker.pem'}",
            # Who has no login is the broker itself, too.
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS;User:reader;User:broker",
            f"log.dirs={folder / 'data'}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
            "log.retention.ms=-1",
            # Compacted topics are compacted at once.
            "log.cleaner.backoff.ms=100",
            # Tests write records of any age.
            "log.message.timestamp.before.max.ms=9223372036854775807",
            "log.message.timestamp.after.max.ms=9223372036854775807",
            "",
        ]
    )


def _certificates(folder: Path) -> str:
    """An authority of one's own, as PEM and as a Java truststore, and the broker's key and
    certificate, for localhost, in `broker.pem`; gives the authority's file."""

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, cwd=folder)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    run("openssl", "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours")
    asked = ("-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=localhost")
    run("openssl", "req", *key[:3], *asked)
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    run(
        "openssl",
        "x509",
        "-req",
        "-in",
        "broker.csr",
        *signed,
        "-extfile",
        "names",
        "-out",
        "broker.crt",
    )
    pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pem)
    keytool = str(find_java() / "bin" / "keytool")
    store = ("-keystore", "trust.jks", "-storepass", STORE_PASSWORD, "-noprompt")
    run(keytool, "-importcert", "-alias", "ours", "-file", "ca.pem", *store)
    return str(folder / "ca.pem")


def _wait_for(process: subprocess.Popen[bytes], log: Path, begun: int) -> None:
    """Waits until the broker says that it serves, behind the first bytes of its log; an open port
    alone comes too early."""
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        if b"Kafka Server started" in log.read_bytes()[begun:]:
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
