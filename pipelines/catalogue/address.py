"""The address of a database: a URL, whose password is never shown."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ingest.errors import ConfigError, Mistake

KINDS = {
    "postgresql": ("postgresql", 5432),
    "postgres": ("postgresql", 5432),
    "mysql": ("mysql", 3306),
    "mariadb": ("mysql", 3306),
}
"""Scheme of a URL -> the reader that it needs, and the default port of such servers."""


class Address(NamedTuple):
    """The parts of a URL. `reader` is postgresql or mysql."""

    reader: str
    host: str
    port: int
    user: str
    password: str | None
    database: str

    def __str__(self) -> str:
        return f"{self.reader}://{self.user}@{self.host}:{self.port}/{self.database}"


def parse_address(url: str) -> Address:
    """The parts of a URL; raises ConfigError if it is not one of a database that can be read."""
    wanted = (
        "expected a URL like postgresql://user@host:5432/database or mysql://user@host/database"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The error quotes what it took for the port, which may be a part of the password.
        raise _mistake(
            f"{wanted}, got one whose host and port cannot be told; in a user's name or a password "
            f"write / as %2F, @ as %40, : as %3A, # as %23 and ? as %3F"
        ) from None
    reader, default = KINDS.get(parts.scheme, ("", 0))
    if not reader:
        got = f"one that begins with `{parts.scheme}`" if parts.scheme else "one without ://"
        raise _mistake(f"{wanted}, got {got}")
    database = unquote(parts.path.strip("/"))
    lacking = [
        name
        for name, value in (
            ("host", parts.hostname),
            ("user", parts.username),
            ("database", database),
        )
        if not value
    ]
    if lacking:
        raise _mistake(f"{wanted}, got one without {' and '.join(lacking)}")
    password = None if parts.password is None else unquote(parts.password)
    user = unquote(parts.username or "")
    return Address(reader, parts.hostname or "", port or default, user, password, database)


def _mistake(text: str) -> ConfigError:
    return ConfigError([Mistake("command line", None, f"`--from`: {text}")])
