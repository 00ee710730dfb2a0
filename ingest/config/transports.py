"""How the messages of a source come in: a model for each key of its YAML that names a transport."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from ingest.addresses import host_and_port
from ingest.config.cadence import Duration
from ingest.config.kafka_options import broken_options, full_name
from ingest.config.mistakes import nearest, shown
from ingest.config.model import (
    Broken,
    ConfigModel,
    PathText,
    Text,
    Whole,
    each_once,
    listed,
    some,
    texts,
)

Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], AfterValidator(each_once), AfterValidator(some)]
"""Names at a broker, which tells them apart by case."""
_KAFKA_TOPIC = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}")
_ROCKETMQ_TOPIC = re.compile(r"[%|A-Za-z0-9_-]{1,255}")
_QUEUE_BYTES = 255
_MOST_NAMED = 10
"""How many names a mistake lists, or is about, of a list that may have thousands."""


def _servers(text: str) -> str:
    if "@" in text:
        # Not shown, since a part of it may be a password.
        wanted = "expected host:port, got a user before an @"
        raise ValueError(f"{wanted}; say who you are by kafka.options, like sasl.jaas.config")
    for server in text.split(","):
        host_and_port(server)
    return text


def _hosts(text: str) -> str:
    if "@" in text or "://" in text:
        # Not shown: what stands before an @ may be a password.
        wanted = "expected host:port, comma between several, got an address with more in it"
        raise ValueError(f"{wanted}; user, password and virtual_host are keys of their own")
    for server in text.split(","):
        host_and_port(server)
    return text


def _kafka_topic(name: str) -> str:
    if not _KAFKA_TOPIC.fullmatch(name):
        wanted = "expected the name of a topic, 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`"
        raise ValueError(f"{wanted}, got `{name}`")
    return name


def _rocketmq_topic(name: str) -> str:
    if not _ROCKETMQ_TOPIC.fullmatch(name):
        wanted = "expected the name of a topic, of A-Z, a-z, 0-9, `_`, `-`, `%` and `|`"
        raise ValueError(f"{wanted}, got `{name}`")
    return name


def _tag(name: str) -> str:
    """Refuses what a subscription of RocketMQ may be and no message has for its tag: all messages
    would be passed over."""
    if name.strip() == "*":
        raise ValueError("expected the name of a tag, got `*`; without `tags` all are read")
    if "|" in name or not name.strip():
        names = [part.strip() for part in name.split("||") if part.strip()]
        instead = f"; write [{', '.join(names)}]" if len(names) > 1 else ""
        raise ValueError(f"expected the name of a tag, got `{name}`{instead}")
    return name


def _queue(name: str) -> str:
    if len(name.encode()) > _QUEUE_BYTES:
        raise ValueError(
            f"expected the name of a queue, {_QUEUE_BYTES} bytes at most, got {len(name.encode())}"
        )
    return name


def _offsets(text: str) -> str:
    if text in ("earliest", "latest"):
        return text
    wanted = 'expected earliest, latest or JSON like {"topic": {"0": 23}}'
    per_topic = _json_value(text)
    if not (isinstance(per_topic, dict) and per_topic) or not all(
        isinstance(offsets, dict) and all(type(offset) is int for offset in offsets.values())
        for offsets in per_topic.values()
    ):
        raise ValueError(f"{wanted}, got `{text}`")
    json.loads(text, object_pairs_hook=_named_once)
    for topic, offsets in per_topic.items():
        if not offsets:
            raise ValueError(f"expected an offset for each partition of `{topic}`, got none")
        for partition, offset in offsets.items():
            _check_offset(topic, partition, offset)
    return text


def _check_offset(topic: str, partition: str, offset: int) -> None:
    """Raise ValueError for an offset that no partition has. -1 and -2 are Kafka's own codes."""
    if not (partition.isascii() and partition.isdigit()):
        wanted = "expected the number of a partition, like 0"
        raise ValueError(f"`{partition}` in `{topic}`: {wanted}")
    if not -2 <= offset < 2**63:
        at, wanted = f"{offset} of partition {partition} of `{topic}`", "expected 0 or more"
        raise ValueError(f"{at}: {wanted}, -1 for latest or -2 for earliest")


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    each_once(tuple(name for name, _ in pairs))
    return dict(pairs)


def _json_value(text: str) -> Any:
    """What a JSON text says; None of any other."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _offsets_of_others(offsets: Any, read: Any, key: str) -> Iterator[Broken]:
    """Names to which `starting_offsets` gives offsets and which `key` does not list, all as
    written."""
    names = [name for _, name in texts(read)]
    known = set(names)
    given = list(offsets) if isinstance(offsets, dict) and names else []
    others = [name for name in given if name not in known]
    for name in others[:_MOST_NAMED]:
        many = f"one of the {len(names)} names of `{key}`"
        wanted = many if len(names) > _MOST_NAMED else f"of `{key}` {listed(names)}"
        text = f"`{name}` is not read; expected {wanted}"
        yield ("starting_offsets",), text + nearest(name, names)
    more = len(others) - _MOST_NAMED
    if more > 0:
        yield ("starting_offsets",), f"{more} other names are not read"


def _regex(text: str) -> str:
    # Kafka's patterns are Java's; of what they commonly use Python lacks the \p{...} classes, \Q
    # and its names of groups, and it warns of classes in classes.
    known = re.sub(r"\\[pP]\{\w+\}", r"\\w", re.sub(r"\\Q.*?(\\E|$)", "q", text))
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", known))
    except re.error as error:
        raise ValueError(f"expected a regular expression, got `{text}`: {error}") from None
    return text


def _client_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """Kafka client options under their full names `kafka.…`."""
    return {full_name(key): value for key, value in given.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


ClientOptions = Annotated[
    Mapping[str, Annotated[str, BeforeValidator(_plain)]], AfterValidator(_client_options)
]


class Kafka(ConfigModel):
    """Topics of one Kafka cluster. `options` reach the client as `kafka.…`, secrets included;
    `max_delay` is in seconds."""

    bootstrap_servers: Annotated[Text, AfterValidator(_servers)]
    topics: Listed[Annotated[Text, AfterValidator(_kafka_topic)]] | None = None
    topics_pattern: Annotated[Text, AfterValidator(_regex)] | None = None
    starting_offsets: Annotated[str, AfterValidator(_offsets)] = "earliest"
    lost: Literal["fail", "go_on"] = "fail"
    group: Text | None = None
    max_offsets_per_batch: Annotated[Whole, Field(ge=1)] = 500_000
    min_offsets_per_batch: Annotated[Whole, Field(ge=1)] = 1
    max_delay: Duration = 900
    options: ClientOptions = Field(default={}, repr=False)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        if given.get("topics") is not None and given.get("topics_pattern") is not None:
            yield ("topics_pattern",), "expected either topics or topics_pattern, got both"
        if given.get("topics") is None and given.get("topics_pattern") is None:
            yield (), "expected topics or topics_pattern, got neither"
        least, most = given.get("min_offsets_per_batch"), given.get("max_offsets_per_batch")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            wanted = f"expected at most max_offsets_per_batch, {most}, got {least}"
            yield ("min_offsets_per_batch",), wanted
        text, read = given.get("starting_offsets"), given.get("topics")
        if isinstance(text, str) and text not in ("earliest", "latest"):
            yield from _offsets_of_others(_json_value(text), read, "topics")
        options = given.get("options")
        options = options if isinstance(options, dict) else {}
        for place, text in broken_options(options):
            yield ("options", *place), text

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The brokers that are asked first, each as host and port."""
        return tuple(map(host_and_port, self.bootstrap_servers.split(",")))

    @property
    def by_token(self) -> bool:
        """Whether the login is by OAUTHBEARER."""
        full = {full_name(option): value for option, value in self.options.items()}
        return full.get("kafka.sasl.mechanism", "").upper() == "OAUTHBEARER"


def _flag(value: Any) -> bool:
    """The two words of YAML 1.2, also as a variable gives them."""
    word = str(value).lower()
    if isinstance(value, bool | str) and word in ("true", "false"):
        return word == "true"
    raise ValueError(f"expected true or false, got {shown(value)}")


def _name_servers(text: str) -> str:
    for server in re.split("[,;]", text):
        host_and_port(server)
    return text


class RocketMQ(ConfigModel):
    """Topics of one RocketMQ cluster, found by its name servers and read by queue offset."""

    name_servers: Annotated[Text, AfterValidator(_name_servers)]
    topics: Listed[Annotated[Text, AfterValidator(_rocketmq_topic)]]
    tags: Listed[Annotated[Text, AfterValidator(_tag)]] | None = None
    group: Text = "delta-cdc-ingest"
    access_key: Text | None = None
    secret_key: Annotated[Text | None, Field(repr=False)] = None
    tls: Annotated[bool, BeforeValidator(_flag)] = False
    ca_file: PathText | None = None
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    lost: Literal["fail", "go_on"] = "fail"

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        pair = [name for name in ("access_key", "secret_key") if given.get(name) is not None]
        if len(pair) == 1:
            yield (pair[0],), "expected access_key and secret_key, got one of them"
        if given.get("ca_file") is not None and str(given.get("tls")).lower() != "true":
            yield ("ca_file",), "is only used with tls: true"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers, each as host:port."""
        return tuple(server.strip() for server in re.split("[,;]", self.name_servers))


class Tls(ConfigModel):
    """How a server is recognised (`ca_file` None: by whoever the system trusts; `server_name` if
    its certificate has another name than its address), and the certificate with which to answer
    it."""

    ca_file: PathText | None = None
    server_name: Text | None = None
    cert_file: PathText | None = None
    key_file: PathText | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        if given.get("key_file") is not None and given.get("cert_file") is None:
            yield ("key_file",), "is only used with cert_file"


def _queue_offsets(value: Any) -> Any:
    if value in ("earliest", "latest"):
        return value
    if isinstance(value, dict) and value and all(type(at) is int for at in value.values()):
        for at in value.values():
            if not 0 <= at < 2**63:
                raise ValueError(f"expected an offset of 0 or more, got {at}")
        return value
    wanted = "expected earliest, latest or a queue and an offset each, like {orders: 1200}"
    raise ValueError(f"{wanted}, got {shown(value)}")


class RabbitMQ(ConfigModel):
    """Queues of one virtual host of a RabbitMQ cluster, or the partitions of a super stream."""

    servers: Annotated[Text, AfterValidator(_hosts)]
    virtual_host: Text = "/"
    user: Text = "guest"
    password: Annotated[Text | None, Field(repr=False)] = None
    tls: Tls | None = None
    queue_type: Literal["stream", "classic", "quorum"] = "stream"
    queues: Listed[Annotated[Text, AfterValidator(_queue)]] | None = None
    super_stream: Text | None = None
    starting_offsets: Annotated[str | Mapping[str, int], BeforeValidator(_queue_offsets)] = (
        "earliest"
    )
    lost: Literal["fail", "go_on"] = "fail"

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        named = [name for name in ("queues", "super_stream") if given.get(name) is not None]
        if len(named) == 2:
            yield ("super_stream",), "expected either queues or super_stream, got both"
        if not named:
            yield (), "expected queues or super_stream, got neither"
        if given.get("queue_type") in ("classic", "quorum"):
            for name in ("super_stream", "starting_offsets", "lost"):
                if given.get(name) is not None:
                    yield (name,), "is only used with queue_type: stream"
        yield from _offsets_of_others(given.get("starting_offsets"), given.get("queues"), "queues")
        tls = given.get("tls")
        if given.get("password") is None and not (isinstance(tls, dict) and tls.get("cert_file")):
            yield (), "expected password, or tls.cert_file with which to log in, got neither"

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The servers, each as host and port."""
        return tuple(map(host_and_port, self.servers.split(",")))


class Files(ConfigModel):
    """Immutable files under a glob; `path` is absolute once loaded, or a URI."""

    path: PathText
    framing: Literal[
        "lines", "whole", "length_prefixed", "avro_container", "hex_lines", "base64_lines", "kcat"
    ] = "lines"
    order: Literal["modified", "path"] = "modified"
