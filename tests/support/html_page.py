"""A page of HTML as a parser has it, for machines that have no browser."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ALONE = {"meta", "link", "br", "img", "input", "hr"}
"""Elements that never end."""
FOLLOWED = ("src", "srcset", "href", "xlink:href", "action", "formaction", "data", "poster")
"""Attributes that lead elsewhere, or have something fetched."""


class Element(NamedTuple):
    """A tag with its attributes; `around` are those it stands in, the outermost first."""

    tag: str
    attributes: dict[str, str]
    around: tuple[Element, ...]

    def within(self, id_: str) -> bool:
        return any(one.attributes.get("id") == id_ for one in self.around)


class ParsedPage(HTMLParser):
    """`elements` are those of the page in their order, `text` is what people could read of it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.text = self.title = ""
        self._open: list[Element] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ALONE:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, attributes, tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        tags = [one.tag for one in self._open]
        if tags[-2:] == ["head", "title"]:
            self.title += data
        elif not {"style", "script"} & set(tags):
            self.text += data

    def followed(self) -> set[str]:
        """Where the page leads, and what it would have a browser fetch."""
        found = (one.attributes.get(name) for one in self.elements for name in FOLLOWED)
        return {address for address in found if address is not None}

    def handlers(self) -> set[str]:
        """Attributes that are code, as `onerror` is."""
        return {name for one in self.elements for name in one.attributes if name.startswith("on")}

    def named(self, id_: str) -> dict[str, str]:
        """The numbers in the element with this id, by their names."""
        return {
            one.attributes["data-name"]: one.attributes["data-value"]
            for one in self.elements
            if "data-name" in one.attributes and one.within(id_)
        }

    def rows(self, table: str) -> dict[str, dict[str, str]]:
        """The numbers of a table, by the row and their names."""
        found: dict[str, dict[str, str]] = {}
        for one in self.elements:
            if not one.within(table):
                continue
            if "data-row" in one.attributes:
                found[one.attributes["data-row"]] = row = {}
            elif "data-name" in one.attributes:
                row[one.attributes["data-name"]] = one.attributes["data-value"]
        return found


def parsed(file: Path) -> ParsedPage:
    """A file of HTML."""
    return ParsedPage(file.read_text(encoding="utf-8"))
