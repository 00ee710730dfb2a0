"""Names and texts as SQL takes them, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(*parts: str) -> str:
    """A name, or one of several parts; dots, spaces and back quotes in a part have no special
    meaning."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def quoted_list(names: Iterable[str]) -> str:
    """Names of columns, one after the other."""
    return ", ".join(map(quoted, names))


def typed_columns(columns: Iterable[tuple[str, str]]) -> str:
    """Columns as a table's definition has them: each its name and its type."""
    return ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns)


def sql_text(text: str) -> str:
    """A string literal that holds exactly `text`.

    A dollar is spelled out: Spark replaces `${…}` in a statement before it reads it, in literals
    too (semantics.md, 71).
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def sql_texts(texts: Iterable[str]) -> str:
    """String literals, one after the other."""
    return ", ".join(map(sql_text, texts))


def equal(**texts: str | None) -> str:
    """True where the columns of these names equal these texts; None stands for any value."""
    asked = ((name, text) for name, text in texts.items() if text is not None)
    return " AND ".join(f"{name} = {sql_text(text)}" for name, text in asked)
