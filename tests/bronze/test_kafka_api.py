"""Kafka's protocol, spoken to a real broker: topics, what they hold, messages, groups, logins."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from pipelines.bronze.kafka_api.cluster import Cluster, NoPermission, NoTopic
from pipelines.bronze.kafka_api.connection import Connection
from pipelines.bronze.kafka_api.login import Login, Refused, Unsupported, login
from pipelines.platform.secrets import without_secrets
from tests.support.kafka_broker import (
    STORE_PASSWORD,
    Broker,
    Record,
    age_out,
    create_topic,
    delete_topic,
    jaas,
    produce,
)
from tests.support.registry_server import Asked, registry_server


def cluster(servers: str, options: dict[str, str] | None = None, **more: Any) -> Cluster:
    host, _, port = servers.rpartition(":")
    return Cluster([(host, int(port))], login(options or {}), **more)


def test_topics_and_what_they_hold(kafka: str) -> None:
    create_topic(kafka, "k1.a", partitions=2)
    create_topic(kafka, "k1.b")
    produce(kafka, "k1.a", [Record(b"x", partition=1)] * 3)
    age_out(kafka, "k1.a", 2, partition=1)
    with cluster(kafka).open() as client:
        found = client.topics(["k1.a", "k1.b"])
        assert client.spans(found) == {
            ("k1.a", 0): (0, 0),
            ("k1.a", 1): (2, 3),
            ("k1.b", 0): (0, 0),
        }
        assert {"k1.a", "k1.b"} <= set(client.topics())
        with pytest.raises(NoTopic, match=r"^there is no topic k1\.none$"):
            client.topics(["k1.a", "k1.none"])
    delete_topic(kafka, "k1.b")
    create_topic(kafka, "k1.b")
    with cluster(kafka).open() as client:
        (anew,) = client.topics(["k1.b"]).values()
    assert len(anew.id or "") == 32 and anew.id != found["k1.b"].id


@pytest.mark.parametrize(
    "said", ["r=@,s=c2FsdA==", "r=@,i=4096", "r=@,s=c2FsdA==,i=99999999", "r=@,s=c2FsdA==,i=0", ""]
)
def test_a_server_that_asks_for_no_login_of_its_kind_is_refused(said: str) -> None:
    """Salt and rounds may be missing, and so many rounds would take for ever."""

    class Hostile(Connection):
        def __init__(self) -> None:
            self._where = "there:9092"

        def _say(self, message: bytes) -> bytes:
            return said.replace("@", message.decode().partition(",r=")[2]).encode()

    began = time.monotonic()
    with pytest.raises(Refused, match="there:9092 does not take the login"):
        Hostile()._scram(Login(None, "SCRAM-SHA-256", "bo", "pw", None), "sha256")
    assert time.monotonic() - began < 5


def test_an_old_broker_tells_no_ids(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic(kafka, "k2", partitions=3)
    monkeypatch.setattr(Connection, "newest", lambda *_: 9)
    with cluster(kafka).open() as client:
        (topic,) = client.topics(["k2"]).values()
        assert (topic.id, sorted(topic.leaders)) == (None, [0, 1, 2])
        assert "k2" in client.topics()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_as_they_were_sent(kafka: str, codec: str) -> None:
    topic = f"k3.{codec}"
    create_topic(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 50})
    for number in range(50):
        headers: list[tuple[str, str | bytes | None]] = [("名", b"\xff"), ("none", None)]
        producer.produce(topic, b"v" * number, b"k", headers=headers, timestamp=1000 + number)
    producer.produce(topic, None, timestamp=1)
    producer.flush(30)
    with cluster(kafka).open() as client:
        found = client.topics([topic])
        records = list(client.read(found[topic], 0, start=10, end=51))
        assert list(client.read(found[topic], 0, start=51, end=60)) == []
    assert [(r.offset, r.value, r.key, r.timestamp) for r in records[:-1]] == [
        (n, b"v" * n, b"k", 1000 + n) for n in range(10, 50)
    ]
    assert records[0].headers == (("名", b"\xff"), ("none", None))
    assert records[-1][:3] == (None, None, None) and records[-1].offset == 50


def test_a_transaction_counts_when_it_is_committed_and_never_when_it_is_given_up(
    kafka: str,
) -> None:
    create_topic(kafka, "k4")
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "k4"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("k4", b"x")
    producer.flush(30)
    held = {}
    for committed in (False, True):
        with cluster(kafka, committed=committed).open() as client:
            held[committed] = client.spans(client.topics(["k4"]))["k4", 0]
    assert held == {False: (0, 1), True: (0, 0)}
    producer.commit_transaction(30)
    with cluster(kafka, committed=True).open() as client:
        found = client.topics(["k4"])
        deadline = time.monotonic() + 30
        while client.spans(found)["k4", 0] != (0, 2):
            assert time.monotonic() < deadline
        assert [r.value for r in client.read(found["k4"], 0, start=0, end=2)] == [b"x"]
    for end, value in (("abort", b"y"), ("abort", b"z"), ("commit", b"x")):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce("k4", value)
            producer.flush(30)
        getattr(producer, f"{end}_transaction")(30)
    produce(kafka, "k4", [Record(b"plain")])
    read = {}
    for committed in (False, True):
        with cluster(kafka, committed=committed).open() as client:
            found = client.topics(["k4"])
            deadline = time.monotonic() + 30
            while client.spans(found)["k4", 0] != (0, 12):
                assert time.monotonic() < deadline
            # Also from the middle of a transaction that was given up.
            read[committed] = [
                [r.value for r in client.read(found["k4"], 0, start=start, end=12)]
                for start in (2, 3)
            ]
    assert read[False][0] == [b"y", b"y", b"z", b"z", b"x", b"x", b"plain"]
    assert read == {
        False: [read[False][0], read[False][0][1:]],
        True: [[b"x", b"x", b"plain"]] * 2,
    }


def test_a_groups_place_is_noted(kafka: str) -> None:
    create_topic(kafka, "k5", partitions=2)
    produce(kafka, "k5", [Record(b"x"), Record(b"y", partition=1)])
    with cluster(kafka).open() as client:
        client.commit("told", {("k5", 0): 1, ("k5", 1): 0})
    asked = [ConsumerGroupTopicPartitions("told")]
    admin = AdminClient({"bootstrap.servers": kafka})
    (done,) = admin.list_consumer_group_offsets(asked).values()
    told = {(p.topic, p.partition): p.offset for p in done.result(30).topic_partitions}
    assert told == {("k5", 0): 1, ("k5", 1): 0}
    member = Consumer({"bootstrap.servers": kafka, "group.id": "told"})
    member.subscribe(["k5"])
    deadline = time.monotonic() + 30
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.5)
    try:
        with (
            cluster(kafka).open() as client,
            pytest.raises(Refused, match="the group has members of its own"),
        ):
            client.commit("told", {("k5", 0): 1})
    finally:
        member.close()


LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.mark.parametrize("mechanism", LOGINS)
def test_every_login(kafka_broker: Broker, mechanism: str) -> None:
    create_topic(kafka_broker.bootstrap, f"k6.{mechanism}")
    options = {"security.protocol": "SASL_PLAINTEXT", **jaas(mechanism)}
    servers = kafka_broker.listener("SASL_PLAINTEXT")
    with cluster(servers, options).open() as client:
        assert client.spans(client.topics([f"k6.{mechanism}"])) == {(f"k6.{mechanism}", 0): (0, 0)}
    options |= jaas(mechanism, "blind")
    with (
        cluster(servers, options).open() as client,
        pytest.raises((NoTopic, NoPermission), match="k6"),
    ):
        client.topics([f"k6.{mechanism}"])


@pytest.mark.parametrize("mechanism", LOGINS[:3])
def test_a_wrong_password_is_told(kafka_broker: Broker, mechanism: str) -> None:
    options = {"security.protocol": "SASL_PLAINTEXT", **jaas(mechanism, password="wrong-one")}
    said = cluster(kafka_broker.listener("SASL_PLAINTEXT"), options)
    with pytest.raises(Refused, match="does not take the login") as error, said.open():
        pass
    assert "wrong-one" not in str(error.value)


def test_tls_by_pem_and_by_a_java_truststore(kafka_broker: Broker) -> None:
    create_topic(kafka_broker.bootstrap, "k7")
    folder = Path(kafka_broker.ca_file).parent
    servers = kafka_broker.listener("SASL_SSL")
    options = {"kafka.security.protocol": "SASL_SSL", **jaas("SCRAM-SHA-512")}
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka_broker.ca_file}
    java = {
        "ssl.truststore.location": str(folder / "trust.jks"),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    inline = {"ssl.truststore.certificates": Path(kafka_broker.ca_file).read_text()}
    for trust in (pem, java, inline):
        with cluster(servers, {**options, **trust}).open() as client:
            assert "k7" in client.topics()
    untrusted = cluster(servers, options)
    with pytest.raises(Refused, match="certificate of localhost:"), untrusted.open():
        pass
    elsewhere = cluster(servers.replace("localhost", "127.0.0.1"), {**options, **pem})
    with pytest.raises(Refused, match="is not taken: IP address mismatch"), elsewhere.open():
        pass
    unnamed = {**pem, "ssl.endpoint.identification.algorithm": ""}
    with cluster(servers.replace("localhost", "127.0.0.1"), {**options, **unnamed}).open():
        pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "a login by GSSAPI"),
        ({"databricks.serviceCredential": "x"}, "a credential of Databricks"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "com.x.OwnModule required;"},
            "sasl.jaas.config names no username for PLAIN",
        ),
    ],
)
def test_what_only_java_can_do_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(Unsupported, match=text):
        login({"security.protocol": "SASL_PLAINTEXT", **options})


def test_the_secret_of_a_client_does_not_follow_a_redirect() -> None:
    """A token is asked for by id and secret; a server to which the answer leads gets neither."""

    def elsewhere(asked: Asked, handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"{other.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with registry_server() as server, registry_server() as other:
        server.answers["/token"] = elsewhere
        other.answers["/elsewhere"] = (200, b'{"access_token": "t"}')
        options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "x.OAuthBearerLoginModule required clientId=me clientSecret=pw;",
            "sasl.oauthbearer.token.endpoint.url": f"{server.url}/token",
        }
        token = login(options).token
        assert token is not None and token() == "t"
    assert server.asked == [Asked("/token", "Basic bWU6cHc=")]
    assert other.asked == [Asked("/elsewhere", None)]


def test_words_of_a_jaas_entry() -> None:
    config = (
        "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        r"""username="a\"b" password='c;"d';"""
    )
    said = login(
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": config,
        }
    )
    assert (said.user, said.password) == ('a"b', 'c;"d')
    assert said.secure is not None and said.secure.verify_mode == ssl.CERT_REQUIRED
    assert 'c;"d' not in repr(said)
    told = without_secrets('no login for a"b by c;"d', {"sasl.jaas.config": config})
    assert told == "no login for [hidden] by [hidden]"
