"""Options of Kafka's Java client as a source gives them, with or without the prefix `kafka.`: which
are set elsewhere, which are misspelt, and which are names of another client."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.config.mistakes import nearest, shown
from ingest.config.model import Broken, listed

# Spark sets these itself and refuses a query that gives them (Spark, Structured Streaming + Kafka
# Integration Guide, "Kafka Specific Configurations").
SET_BY_SPARK = {
    "kafka.auto.offset.reset": "starting_offsets says where to begin",
    "kafka.bootstrap.servers": "bootstrap_servers stands one level up",
    "kafka.enable.auto.commit": "progress lives in the checkpoint",
    "kafka.interceptor.classes": "Spark refuses it",
    "kafka.key.deserializer": "keys are always read as bytes",
    "kafka.value.deserializer": "values are always read as bytes",
}
OF_CONSUMERS = frozenset(
    """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.dns.lookup client.id
    client.rack connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    session.timeout.ms share.acknowledgement.mode socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
    ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """.split()
)
"""Kafka 4.1, "Consumer Configs", without those of `SET_BY_SPARK` and the deserializers' own."""
# Options of Spark's source, which stand one level up by other names (ibid.).
_OF_SPARK = {
    "assign": "topics",
    "subscribe": "topics",
    "subscribepattern": "topics_pattern",
    "startingoffsets": "starting_offsets",
    "failondataloss": "lost",
    "maxoffsetspertrigger": "max_offsets_per_batch",
    "minoffsetspertrigger": "min_offsets_per_batch",
    "maxtriggerdelay": "max_delay",
}
_OF_DATABRICKS = ("databricks.serviceCredential", "databricks.serviceCredential.scope")
"""Options of Databricks' source (its guide "Authentication" of Kafka), which are not the client's:
they have no prefix."""
# Python, Go, Node and C# name the same so: librdkafka 2.12, CONFIGURATION.md.
_OF_LIBRDKAFKA = {
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.jaas.config",
    "sasl.oauthbearer.client.secret": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location with ssl.truststore.type: PEM",
    "ssl.ca.pem": "ssl.truststore.certificates with ssl.truststore.type: PEM",
    "ssl.certificate.location": "ssl.keystore.location with ssl.keystore.type: PEM",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain with ssl.keystore.type: PEM",
    "ssl.key.location": "ssl.keystore.location with ssl.keystore.type: PEM",
    "ssl.key.pem": "ssl.keystore.key with ssl.keystore.type: PEM",
}
_MISSPELT = 0.85
"""How alike (difflib's ratio) an option that no client has must be to one that it has. Others are
let through, since a class that an option names may read options of its own."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = (
    "GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"
)  # fmt: skip
"""Those of Kafka, and of the library with which Amazon MSK is asked. A class may bring others."""
_OPTION = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


def full_name(option: str) -> str:
    """The name by which Spark passes an option on to the client, `kafka.…`."""
    return option if option.startswith(("kafka.", "databricks.")) else f"kafka.{option}"


def broken_options(options: Mapping[str, Any]) -> Iterator[Broken]:
    """What is wrong with `options` as written. The client itself passes over a name that it does
    not know with a line in its log."""
    for option, value in options.items():
        text = _broken(option, value, options)
        if text:
            yield (option,), text


def _broken(option: str, value: Any, options: Mapping[str, Any]) -> str:
    full = full_name(option)
    name = full.removeprefix("kafka.")
    if full in SET_BY_SPARK:
        return f"cannot be set: {SET_BY_SPARK[full]}"
    if full.startswith("databricks."):
        if full in _OF_DATABRICKS:
            return ""
        return f"expected {listed(_OF_DATABRICKS)}{nearest(full, _OF_DATABRICKS)}"
    if name.lower() in _OF_SPARK:
        return f"is an option of Spark's, not of the client; {_OF_SPARK[name.lower()]} says it"
    if not _OPTION.fullmatch(full):
        return "expected a Kafka client option like security.protocol"
    if full != option and full in options:
        return "is given with and without the prefix kafka."
    if name in _OF_LIBRDKAFKA:
        return f"is an option of librdkafka; Kafka's Java client has {_OF_LIBRDKAFKA[name]}"
    if name not in OF_CONSUMERS:
        near = difflib.get_close_matches(name, OF_CONSUMERS, n=1, cutoff=_MISSPELT)
        return f"is no option of Kafka's Java client; nearest: {near[0]}" if near else ""
    if name == "security.protocol" and isinstance(value, str) and value.upper() not in _PROTOCOLS:
        return f"expected {listed(_PROTOCOLS)}, got {shown(value)}{nearest(value, _PROTOCOLS)}"
    if name == "sasl.mechanism" and isinstance(value, str):
        return _misspelt_mechanism(value)
    return ""


def _misspelt_mechanism(given: str) -> str:
    """What is wrong with a mechanism that is nearly one of Kafka's; the client tells them apart by
    case, too."""
    plain = {re.sub(r"[^A-Z0-9]", "", name): name for name in _MECHANISMS}
    letters = re.sub(r"[^A-Z0-9]", "", given.upper())
    near = difflib.get_close_matches(letters, plain, n=1, cutoff=_MISSPELT)
    if given in _MECHANISMS or not near:
        return ""
    return f"expected {listed(_MECHANISMS)}, got {shown(given)}; nearest: {plain[near[0]]}"
