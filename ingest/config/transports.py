"""How the messages of a source come in: a model for each key of its YAML that names a transport."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ingest.config.model import Broken, ConfigModel, SomeNames, Text

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
_CLIENT_OPTION = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


def _servers(text: str) -> str:
    if "@" in text:
        # Not shown: what stands before it may be a password.
        wanted = "expected host:port, got a user before an @"
        raise ValueError(f"{wanted}; say who you are by kafka.options, like sasl.jaas.config")
    for server in text.split(","):
        if not re.fullmatch(r"\s*\S+:\d{1,5}\s*", server):
            raise ValueError(f"expected host:port, comma between several, got `{server.strip()}`")
    return text


def _offsets(text: str) -> str:
    if text in ("earliest", "latest"):
        return text
    wanted = 'expected earliest, latest or JSON like {"topic": {"0": 23}}'
    try:
        per_topic = json.loads(text)
    except ValueError:
        raise ValueError(f"{wanted}, got `{text}`") from None
    if not isinstance(per_topic, dict) or not all(
        isinstance(offsets, dict) and all(type(offset) is int for offset in offsets.values())
        for offsets in per_topic.values()
    ):
        raise ValueError(f"{wanted}, got `{text}`")
    return text


def _regex(text: str) -> str:
    # Kafka's patterns are Java's; its \p{...} classes are the one common thing Python lacks.
    try:
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", text))
    except re.error as error:
        raise ValueError(f"expected a regular expression, got `{text}`: {error}") from None
    return text


def _client_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """Kafka client options under their full names `kafka.…`."""
    return {_full(key): value for key, value in given.items()}


def _full(option: str) -> str:
    return option if option.startswith("kafka.") else f"kafka.{option}"


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


ClientOptions = Annotated[
    Mapping[str, Annotated[str, BeforeValidator(_plain)]], AfterValidator(_client_options)
]


class Kafka(ConfigModel):
    """Topics of one Kafka cluster. `options` reach the client as `kafka.…`, secrets included."""

    bootstrap_servers: Annotated[Text, AfterValidator(_servers)]
    topics: SomeNames | None = None
    topics_pattern: Annotated[Text, AfterValidator(_regex)] | None = None
    starting_offsets: Annotated[str, AfterValidator(_offsets)] = "earliest"
    options: ClientOptions = Field(default={}, repr=False)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        if given.get("topics") is not None and given.get("topics_pattern") is not None:
            yield ("topics_pattern",), "expected either topics or topics_pattern, got both"
        if given.get("topics") is None and given.get("topics_pattern") is None:
            yield (), "expected topics or topics_pattern, got neither"
        options = given.get("options")
        options = options if isinstance(options, dict) else {}
        for option in options:
            if _full(option) in SET_BY_SPARK:
                yield ("options", option), f"cannot be set: {SET_BY_SPARK[_full(option)]}"
            elif not _CLIENT_OPTION.fullmatch(_full(option)):
                yield ("options", option), "expected a Kafka client option like security.protocol"
            elif _full(option) != option and _full(option) in options:
                yield ("options", option), "is given with and without the prefix kafka."


def _name_servers(text: str) -> str:
    for server in re.split("[,;]", text):
        if not re.fullmatch(r"\s*\S+:\d{1,5}\s*", server) or "@" in server:
            # What stands before an @ may be a password, and is not shown.
            got = "a user before an @" if "@" in server else f"`{server.strip()}`"
            raise ValueError(f"expected host:port, comma between several, got {got}")
    return text


class RocketMQ(ConfigModel):
    """Topics of one RocketMQ cluster, found by its name servers and read by queue offset."""

    name_servers: Annotated[Text, AfterValidator(_name_servers)]
    topics: SomeNames
    tags: SomeNames | None = None
    group: Text = "delta-cdc-ingest"
    access_key: Text | None = None
    secret_key: Annotated[Text | None, Field(repr=False)] = None
    tls: bool = False
    ca_file: Text | None = None
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    lost: Literal["fail", "go_on"] = "fail"

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        pair = [name for name in ("access_key", "secret_key") if given.get(name) is not None]
        if len(pair) == 1:
            yield (pair[0],), "expected access_key and secret_key, got one of them"
        if given.get("ca_file") is not None and given.get("tls") is not True:
            yield ("ca_file",), "is only used with tls: true"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers, each as host:port."""
        return tuple(server.strip() for server in re.split("[,;]", self.name_servers))


class Files(ConfigModel):
    """Immutable files under a glob; `path` is absolute once loaded, or a URI."""

    path: Text
    framing: Literal[
        "lines", "whole", "length_prefixed", "avro_container", "hex_lines", "base64_lines", "kcat"
    ] = "lines"
    order: Literal["modified", "path"] = "modified"
