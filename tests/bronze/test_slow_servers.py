"""Servers that send byte by byte without end: each read is in time, the whole answer never."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pipelines.bronze.kafka_api import cluster as kafka_cluster
from pipelines.bronze.kafka_api import connection as kafka_connection
from pipelines.bronze.kafka_api import login as kafka_login
from pipelines.bronze.kafka_api.cluster import Client, NoPartition, Topic
from pipelines.bronze.kafka_api.login import Login, Refused
from pipelines.bronze.remoting import connection as remoting
from pipelines.platform import sockets

PATIENCE = 0.5


@contextmanager
def dripping(first: bytes) -> Iterator[int]:
    """The port of a server that answers with `first`, then a byte every now and then."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(first)
                while not over.wait(PATIENCE / 10):
                    connection.sendall(b"x")
            except OSError:
                # Who asked has had enough.
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join(10)


def _ask_kafka(port: int) -> None:
    kafka_connection.Connection("127.0.0.1", port, Login(None, None, "", "", None))


def _ask_rocketmq(port: int) -> None:
    with remoting.Connection(f"127.0.0.1:{port}") as server:
        server.ask(105, topic="shop")


def _ask_for_a_token(port: int) -> None:
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "x.OAuthBearerLoginModule required clientId=a clientSecret=pw-of-a;",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token",
    }
    token = kafka_login.login(options).token
    assert token is not None
    token()


@pytest.mark.parametrize(
    ("ask", "first"),
    [
        (_ask_kafka, struct.pack(">i", 1 << 20)),
        (_ask_rocketmq, struct.pack(">II", 1 << 20, 1 << 19)),
        (_ask_for_a_token, b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"),
    ],
)
def test_an_answer_has_a_time_within_which_it_is_whole(
    ask: Callable[[int], None], first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(kafka_login, "_SECONDS", PATIENCE)
    began = time.monotonic()
    with dripping(first) as port, pytest.raises(OSError, match="no whole answer within") as error:
        ask(port)
    assert time.monotonic() - began < 10 * PATIENCE
    assert "pw-of-a" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", r"expected an answer in HTTP, got none \(BadStatusLine\)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "no JSON object with access_token"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "no JSON object with access_token"),
    ],
)
def test_a_token_comes_as_json_in_http(first: bytes, said: str) -> None:
    with dripping(first) as port, pytest.raises(Refused, match=f"gives no token: .*{said}"):
        _ask_for_a_token(port)


def test_a_token_has_a_most_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_login, "_MOST_BYTES", 8)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"
    with dripping(head) as port, pytest.raises(Refused, match="is longer than 8 bytes"):
        _ask_for_a_token(port)


def test_a_partition_that_is_no_more() -> None:
    """A topic was made anew with fewer between the question what it holds and its messages."""
    client = Client.__new__(Client)
    with pytest.raises(NoPartition, match="shop has no partition 1 any more"):
        list(client.read(Topic("shop", None, {0: 1}), 1, start=0, end=5))
    assert issubclass(kafka_cluster.NoPartition, OSError)
