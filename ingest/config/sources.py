"""`conf/sources/*.yml`: where messages come from and what they do not say themselves."""

from __future__ import annotations

import json
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ingest.config.mistakes import nearest, shown
from ingest.config.model import Broken, ConfigModel, SomeNames, Text, Whole
from ingest.config.source_types import unknown_type
from ingest.limits import Limits
from ingest.names import table_name

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
_SHARE = re.compile(r"[0-9]+(\.[0-9]+)?%")
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


def _bound(value: Any) -> int | str | None:
    """A number, or a share as text."""
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, str) and _SHARE.fullmatch(value):
        return value
    raise ValueError(f"expected a number of messages, or a share like 1%, got {shown(value)}")


def _regex(text: str) -> str:
    # Kafka's patterns are Java's; its \p{...} classes are the one common thing Python lacks.
    try:
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", text))
    except re.error as error:
        raise ValueError(f"expected a regular expression, got `{text}`: {error}") from None
    return text


def _zone(text: str) -> str:
    if re.fullmatch(r"[+-](0\d|1[0-8]):[0-5]\d", text):
        return text
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(text, sorted(zoneinfo.available_timezones()))
        wanted = "expected a time zone like Asia/Shanghai or +08:00"
        raise ValueError(f"{wanted}, got `{text}`{near}") from None
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


def _source_type(text: str) -> str:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1, "<": 1, ">": -1}.get(character, 0)
        if depth < 0:
            break
    if depth or not re.match(r"[A-Za-z_]", text):
        raise ValueError(f"expected a column type like DATETIME(6) or decimal(12,2), got `{text}`")
    wrong = unknown_type(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


SourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
TableName = Annotated[str, AfterValidator(table_name)]
ClientOptions = Annotated[
    Mapping[str, Annotated[str, BeforeValidator(_plain)]], AfterValidator(_client_options)
]
SourceType = Annotated[str, AfterValidator(_source_type)]


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


class Files(ConfigModel):
    """Immutable files under a glob; `path` is absolute once loaded, or a URI."""

    path: Text
    framing: Literal[
        "lines", "whole", "length_prefixed", "avro_container", "hex_lines", "base64_lines", "kcat"
    ] = "lines"
    order: Literal["modified", "path"] = "modified"


class SourceLimits(ConfigModel):
    """How large messages may be: what is not given has the default of `ingest.limits.Limits`."""

    message_bytes: Annotated[Whole, Field(ge=1)] | None = None
    columns: Annotated[Whole, Field(ge=1)] | None = None
    nesting: Annotated[Whole, Field(ge=1)] | None = None
    ddl_bytes: Annotated[Whole, Field(ge=1)] | None = None
    unpacked_bytes: Annotated[Whole, Field(ge=1)] | None = None

    def filled(self) -> Limits:
        """The limits that hold."""
        return Limits(**self.model_dump(exclude_none=True))


class Rejects(ConfigModel):
    """What is done about messages that are set aside. `fail_above`: a number of them, or a share of
    a run's messages (`1%`), above which the source counts as failed."""

    fail_above: Annotated[int | str | None, BeforeValidator(_bound)] = None

    def above(self, rejects: int, of: int) -> bool:
        """Whether so many rejects of so many messages are too many."""
        if self.fail_above is None:
            return False
        if isinstance(self.fail_above, int):
            return rejects > self.fail_above
        return rejects * 100 > Decimal(self.fail_above.removesuffix("%")) * of


class Source(ConfigModel):
    """One stream of messages. `keys`, `columns` and `default_…` fill in what a message omits."""

    name: SourceName
    format: Text = "auto"
    kafka: Kafka | None = None
    files: Files | None = None
    order: Literal["auto", "source", "arrival"] = "auto"
    statements: Literal["auto", "one_partition", "every_partition"] = "auto"
    time_zone: Annotated[Text, AfterValidator(_zone)] | None = None
    default_database: Text | None = None
    default_schema: Text | None = None
    default_table: Text | None = None
    epoch: Annotated[Whole, Field(ge=0)] = 0
    keys: Mapping[TableName, SomeNames] = {}
    columns: Mapping[TableName, Mapping[Text, SourceType]] = {}
    options: Mapping[str, Any] = Field(default={}, repr=False)
    limits: SourceLimits = SourceLimits()
    rejects: Rejects = Rejects()

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        if given.get("kafka") is not None and given.get("files") is not None:
            yield ("files",), "expected exactly one transport, got both kafka and files"
        if given.get("kafka") is None and given.get("files") is None:
            yield (), "expected a transport, kafka or files, got neither"
