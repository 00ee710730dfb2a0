"""`conf/sources/*.yml`: where messages come from and what they do not say themselves."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ingest.config.mistakes import nearest, shown
from ingest.config.model import Broken, ConfigModel, SomeNames, Text, Whole
from ingest.config.source_types import unknown_type
from ingest.config.transports import Files, Kafka, RabbitMQ, RocketMQ
from ingest.formats import FORMATS
from ingest.limits import Limits
from ingest.names import table_name
from ingest.wire.contract import Format

_NO_ZONES = ("localtime", "posixrules", "Factory", "posix", "right")
"""What the files of zones have beside zones: Java knows none of them, and the first is another on
each machine."""
_SHARE = re.compile(r"[0-9]+(\.[0-9]+)?%")


def _bound(value: Any) -> int | str | None:
    """A number, or a share as text."""
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    share = isinstance(value, str) and _SHARE.fullmatch(value)
    if share and Decimal(value.removesuffix("%")) <= 100:
        return str(value)
    raise ValueError(
        f"expected a number of messages, or a share like 1%, 100% at most, got {shown(value)}"
    )


def _zone(text: str) -> str:
    if re.fullmatch(r"[+-]((0\d|1[0-7]):[0-5]\d|18:00)", text):
        return text
    try:
        if text.partition("/")[0] in _NO_ZONES:
            raise ValueError
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(text, sorted(zoneinfo.available_timezones()))
        wanted = "expected a time zone like Asia/Shanghai or +08:00"
        raise ValueError(f"{wanted}, got `{text}`{near}") from None
    return text


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


TRANSPORTS = ("kafka", "rabbitmq", "rocketmq", "files")
"""The keys of a source that name a transport; each has a model in `ingest.config.transports`."""

SourceName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=200)
]
"""Folders and files are named by it, with more letters added."""
TableName = Annotated[str, AfterValidator(table_name)]
SourceType = Annotated[str, AfterValidator(_source_type)]


class SourceLimits(ConfigModel):
    """How large messages may be; limits that are not given have the defaults of
    `ingest.limits.Limits`."""

    message_bytes: Annotated[Whole, Field(ge=1)] | None = None
    columns: Annotated[Whole, Field(ge=1)] | None = None
    nesting: Annotated[Whole, Field(ge=1)] | None = None
    ddl_bytes: Annotated[Whole, Field(ge=1)] | None = None
    unpacked_bytes: Annotated[Whole, Field(ge=1)] | None = None

    def filled(self) -> Limits:
        """The limits with their defaults filled in."""
        return Limits(**self.model_dump(exclude_none=True))


class Rejects(ConfigModel):
    """What is done about messages that are set aside. `fail_above`: how many, or which share of a
    run's messages (`1%`), may be set aside before the source counts as failed."""

    fail_above: Annotated[int | str | None, BeforeValidator(_bound)] = None

    def above(self, rejects: int, of: int) -> bool:
        """Whether this many rejects of this many messages are too many."""
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
    rabbitmq: RabbitMQ | None = None
    rocketmq: RocketMQ | None = None
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
        named = [name for name in TRANSPORTS if given.get(name) is not None]
        if len(named) > 1:
            yield (named[-1],), f"expected exactly one transport, got {' and '.join(named)}"
        if not named:
            yield (), f"expected a transport ({', '.join(TRANSPORTS)}), got none"
        tables = given.get("columns")
        for table, columns in tables.items() if isinstance(tables, dict) else ():
            declared: dict[str, str] = {}
            for name in columns if isinstance(columns, dict) else ():
                first = declared.setdefault(name.lower(), name)
                if first != name:
                    text = f"`{name}` is `{first}`, but for case: columns are matched without it"
                    yield ("columns", table, name), text

    @property
    def transport(self) -> str:
        """The key of the YAML that says how the messages come in, one of TRANSPORTS."""
        return next(name for name in TRANSPORTS if getattr(self, name) is not None)

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that its messages may be of."""
        return tuple(FORMATS.values()) if self.format == "auto" else (FORMATS[self.format],)

    @property
    def splits_updates(self) -> bool:
        """Whether halves of updates may come, which silver joins."""
        return any(format_.splits_updates for format_ in self.formats)

    @property
    def shards(self) -> bool:
        """Whether messages may come in several shards, which silver puts together."""
        return any(format_.shards for format_ in self.formats)
