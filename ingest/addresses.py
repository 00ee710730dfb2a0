"""Addresses that people write: of web servers, such as a registry's or a webhook's, and of the
brokers of a queue."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

LOGIN = re.compile(
    r"""(?<=://)[^\s"]{1,2000}(?=@)|(?<![^\s"'`(=])[^\s"'`:/@]{1,200}:(?!//)[^\s"]{1,2000}(?=@)"""
)
"""The user's name and password of an address within a sentence, in which a password may hold what
it should not, such as `/` or `@`; the protocol before them may be missing."""
_PORTS = range(1, 2**16)
_HOST_AND_PORT = re.compile(r"\s*(?:\w[\w+.-]*://)?(\[[^\s\[\]]+\]|[^\s\[\]]+):(\d+)\s*", re.ASCII)


def host_and_port(text: str) -> tuple[str, int]:
    """The two of `host:port`; an IPv6 address as host stands in brackets. A protocol before them,
    which Kafka's client takes too, counts for nothing.

    Raises ValueError, which repeats nothing of a user that stands before an `@`: what follows it
    may be a password.
    """
    found = None if "@" in text else _HOST_AND_PORT.fullmatch(text)
    if found is None:
        got = "a user before an @" if "@" in text else f"`{text.strip()}`"
        raise ValueError(f"expected host:port, comma between several, got {got}")
    host, port = found.groups()
    if int(port) not in _PORTS:
        raise ValueError(f"expected a port from 1 to 65535, got `{text.strip()}`")
    return host.strip("[]"), int(port)


def after_login(text: str) -> str:
    """An address without what stands before its last `@`, any part of which may be a password."""
    _, at, host = text.rpartition("@")
    return f"[hidden]@{host}" if at else text


def wrong_address(text: str) -> str:
    """What is wrong with an address of the web; empty if nothing is. It repeats nothing of the
    address, a part of which may be a secret."""
    if not text.lower().startswith(("http://", "https://")):
        return "it has to begin with http:// or https://"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "what follows its host is no port, a number from 1 to 65535"
    if not parts.hostname or any(character.isspace() for character in text):
        return "it names no host"
    return "0 is no port" if port == 0 else ""
