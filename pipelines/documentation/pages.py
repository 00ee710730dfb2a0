"""A page of Markdown with parts that are generated, and how tables are written in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

_PART = re.compile(r"^(<!-- generated: ([\w .-]+) -->)\n.*?^(<!-- end -->)$", re.M | re.S)
Writer = Callable[..., str]


def names(text: str) -> Iterator[str]:
    """The names of the parts of a page that are written anew."""
    return (found[2] for found in _PART.finditer(text))


def written(text: str, writers: dict[str, Writer]) -> str:
    """The page with its parts written anew.

    The first word of a part's name says which of `writers` writes it, the others are its arguments.
    Raises KeyError for a name that there is not.
    """

    def part(found: re.Match[str]) -> str:
        name, *arguments = found[2].split()
        return f"{found[1]}\n\n{writers[name](*arguments).strip()}\n\n{found[3]}"

    return _PART.sub(part, text)


def pages(folder: Path) -> list[Path]:
    """The pages of a folder, in order."""
    return sorted(folder.rglob("*.md"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; cells are Markdown themselves."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in line)} |" for line in lines)


def cell(text: str) -> str:
    """`text` on one line, its bars no ends of a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """`text` as code, whatever is in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(language: str, text: str) -> str:
    """`text` as a block of a language."""
    return f"```{language}\n{text.rstrip()}\n```"
