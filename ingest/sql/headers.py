"""Headers of messages in bronze, as SQL: a list of names and values, in which a name may stand
several times."""

from __future__ import annotations

from ingest.sql.quoting import sql_text


def header_value(name: str) -> str:
    """SQL of the bytes of a message's last header of this name; NULL if it has none."""
    return f"try_element_at(filter(headers, h -> h.key = {sql_text(name)}), -1).value"
