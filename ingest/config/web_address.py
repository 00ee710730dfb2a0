"""Addresses of web servers, such as a registry's or a webhook's."""

from __future__ import annotations

from urllib.parse import urlsplit


def wrong_address(text: str) -> str:
    """What is wrong with an address of the web; empty where nothing is. It repeats nothing of the
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
