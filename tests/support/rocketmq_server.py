"""RocketMQ for tests: a name server and a broker, each a process started from jars, and ways to
fill them: by the remoting protocol, or by the Java client as the broker's own tool uses it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pipelines.bronze.remoting.cluster import Cluster, Queue
from pipelines.bronze.remoting.connection import Access, Connection
from pipelines.platform.jars import fetch
from pipelines.platform.java import find_java

LOCK = Path(__file__).with_name("rocketmq_server.jars")
STARTS_WITHIN = 90.0  # seconds; about 6 on two idle cores
_CREATE_TOPIC, _SEND = 17, 310
_READ_AND_WRITE = 6


class Sent(NamedTuple):
    """One message to send to a queue."""

    body: bytes
    queue: int = 0
    properties: Mapping[str, str] = {}


class Server:
    """A name server and one broker, which can be killed and started again."""

    def __init__(self, folder: Path, *, access: Access | None = None) -> None:
        self._folder, self._access = folder, access
        self.ca_file = _certificate(folder)
        if access is not None:
            tool = f"accessKey: {access.access_key}\nsecretKey: {access.secret_key}\n"
            (folder / "conf").mkdir()
            (folder / "conf" / "tools.yml").write_text(tool)
        # A broker also listens two ports below its own.
        self._ports = _free_ports()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def broker(self) -> str:
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def processes(self) -> list[int]:
        """The ids of the name server's process and the broker's."""
        return [process.pid for process in self._processes.values()]

    def start(self) -> None:
        """Starts what does not run; returns when topics can be created."""
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self._start("namesrv", main, ["-c", self._written("namesrv", self._name_server())])
        main = "org.apache.rocketmq.broker.BrokerStartup"
        self._start("broker", main, ["-c", self._written("broker", self._broker())])

    def kill(self, *names: str) -> None:
        """Ends processes at once, both where none is named."""
        for name in names or tuple(self._processes):
            process = self._processes.pop(name)
            process.kill()
            process.wait()

    def create_topic(self, topic: str, *, queues: int = 1) -> None:
        """Makes an empty topic, which the name server knows when this returns."""
        with Connection(self.broker, access=self._access) as broker:
            made = broker.ask(
                _CREATE_TOPIC,
                topic=topic,
                defaultTopic="TBW102",
                readQueueNums=queues,
                writeQueueNums=queues,
                perm=_READ_AND_WRITE,
                topicFilterType="SINGLE_TAG",
                topicSysFlag=0,
                order=False,
            )
        assert made.code == 0, made
        self.await_topic(topic)

    def await_topic(self, topic: str) -> None:
        """Returns when the name server knows a topic again: a moment after its broker serves."""
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._knows(topic):
            assert time.monotonic() < deadline, f"the name server does not know {topic}"
            time.sleep(0.1)

    def send(self, topic: str, messages: Iterable[Sent]) -> None:
        """Appends messages to their queues, in order."""
        with Connection(self.broker, access=self._access) as broker:
            for message in messages:
                pairs = {"WAIT": "true", **message.properties}
                answer = broker.ask(
                    _SEND,
                    body=message.body,
                    a="tests",
                    b=topic,
                    c="TBW102",
                    d=1,
                    e=message.queue,
                    f=0,
                    g=1_700_000_000_000,
                    h=0,
                    i="".join(f"{name}\x01{value}\x02" for name, value in pairs.items()),
                    j=0,
                    k=False,
                    m=False,
                )
                assert answer.code == 0, answer

    def send_by_java(self, topic: str, body: str, *, keys: str, tag: str) -> None:
        """Sends one message by the Java client, which packs one above 4 KB."""
        words = ["sendMessage", "-n", self.name_server, "-t", topic, "-p", body, "-k", keys]
        main = "org.apache.rocketmq.tools.command.MQAdminStartup"
        command = [*self._java(), main, *words, "-c", tag]
        said = subprocess.run(command, env=self._env(), capture_output=True, text=True, check=True)
        assert "SEND_OK" in said.stdout, said.stdout[-2000:]

    def _knows(self, topic: str) -> list[Queue]:
        try:
            return Cluster([self.name_server], self._access).queues(topic)
        except Exception:
            return []

    def _start(self, name: str, main: str, words: list[str]) -> None:
        if name in self._processes:
            return
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._java(), main, *words], stdout=output, stderr=output, env=self._env()
            )
        self._processes[name] = process
        deadline = time.monotonic() + STARTS_WITHIN
        while "boot success" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                raise RuntimeError(f"{name} of RocketMQ did not start:\n{end}")
            time.sleep(0.1)

    def _java(self) -> list[str]:
        heap = ["-Xmx384m", "-XX:MaxDirectMemorySize=256m", "-XX:TieredStopAtLevel=1"]
        jars = os.pathsep.join(map(str, fetch(LOCK)))
        # Logs go to the user's home.
        home = f"-Duser.home={self._folder}"
        tls = ["-Dtls.test.mode.enable=false", f"-Dtls.server.certPath={self.ca_file}"]
        tls.append(f"-Dtls.server.keyPath={self.ca_file.with_suffix('.key')}")
        return [str(find_java() / "bin" / "java"), *heap, home, *tls, "-cp", jars]

    def _env(self) -> dict[str, str]:
        return {**os.environ, "ROCKETMQ_HOME": str(self._folder)}

    def _written(self, name: str, properties: Mapping[str, object]) -> str:
        file = self._folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(file)

    def _name_server(self) -> dict[str, object]:
        return {"listenPort": self._ports[0]}

    def _broker(self) -> dict[str, object]:
        store = self._folder / "store"
        return {
            "brokerClusterName": "tests",
            "brokerName": "a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": self._ports[1],
            # By default one port for all brokers of a machine.
            "haListenPort": self._ports[1] - 1,
            "namesrvAddr": self.name_server,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "autoCreateTopicEnable": "false",
            "mappedFileSizeCommitLog": 1 << 24,
            "mappedFileSizeConsumeQueue": 600_000,
            "flushDiskType": "SYNC_FLUSH",
            **({} if self._access is None else _guarded(self._access)),
        }


def _certificate(folder: Path) -> Path:
    """A certificate of this machine, signed by itself, with its key beside it."""
    made, key = folder / "server.pem", folder / "server.key"
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, *name, *files], check=True, capture_output=True)
    return made


def _guarded(access: Access) -> dict[str, object]:
    """Settings of a broker that lets in none but one user, who may do everything."""
    user = {"username": access.access_key, "password": access.secret_key}
    own = {"accessKey": access.access_key, "secretKey": access.secret_key}
    package = "org.apache.rocketmq.auth.authentication.provider"
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{package}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{package}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps(user),
        "innerClientAuthenticationCredentials": json.dumps(own),
    }


@contextmanager
def server(folder: Path, *, access: Access | None = None) -> Iterator[Server]:
    """Runs RocketMQ with its data in `folder`; with `access` it lets in only who has that key pair.

    Raises:
        RuntimeError: it ended or did not say in time that it serves.
    """
    running = Server(folder, access=access)
    try:
        running.start()
        yield running
    finally:
        running.kill()
        shutil.rmtree(folder / "store", ignore_errors=True)


def _free_ports() -> tuple[int, int]:
    """Ports free at this moment, with the second one's lower neighbours."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            name, broker = one.getsockname()[1], two.getsockname()[1]
        if abs(name - broker) > 4 and all(_free(broker - lower) for lower in (1, 2)):
            return name, broker


def _free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
