"""What the shell offers for a word that is half typed, found without Spark.

click completes verbs and options by itself. This module adds the names that depend on the
configuration: sources from the YAML, targets from the folders of gold and from the tables files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ingest.errors import ConfigError
from pipelines.cli.context import Invocation
from pipelines.cli.examples import commands

if TYPE_CHECKING:
    from ingest.config.load import Config

Offer = Callable[[Invocation], Iterable[str]]
"""Finds the words from which the user may choose."""


class Offered(click.types.StringParamType):
    """A text for which the shell has offers; any other text is accepted, too."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The offers that begin with what was typed; none if the YAML has a mistake."""
        try:
            found = sorted(set(self._offer(ctx.ensure_object(Invocation))))
        except ConfigError:
            return []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def sources(call: Invocation) -> Iterable[str]:
    """The declared sources."""
    return call.config.sources


def targets(call: Invocation) -> Iterable[str]:
    """The gold tables that exist, if they are folders, and those that the YAML names."""
    return {*_made(call.config), *_named(call.config)}


def _made(config: Config) -> Iterable[str]:
    if config.settings.catalog is None:
        gold = Path(config.settings.warehouse) / config.settings.schemas.gold
        yield from (log.parent.name for log in gold.glob("[!_]*/_delta_log"))


def _named(config: Config) -> Iterable[str]:
    for tables in config.tables.values():
        yield from (entry.target for entry in tables.tables if "{" not in entry.target)


def codes(call: Invocation) -> Iterable[str]:
    """The codes of errors."""
    from ingest.codes import Code

    return (code.value for code in Code if code.severity == "error")


def formats(call: Invocation) -> Iterable[str]:
    """The names of the wire formats."""
    from ingest.formats import FORMATS

    return FORMATS


def framings(call: Invocation) -> Iterable[str]:
    """The ways in which records may lie in a file."""
    from ingest.files.framing import FRAMINGS

    return FRAMINGS


def orders(call: Invocation) -> Iterable[str]:
    """What may decide the order of changes."""
    return ("auto", "source", "arrival")


OFFERS: Mapping[str, Offer] = {
    "source": sources,
    "sources": sources,
    "table": targets,
    "tables": targets,
    "code": codes,
    "framing": framings,
    "order": orders,
}
"""The name of a parameter of any verb -> the function that finds its offers."""
OF_VERB: Mapping[tuple[str, str], Offer] = {
    ("formats", "name"): formats,
    ("inspect", "format_"): formats,
    ("init", "format_"): formats,
}
"""The same for names that mean something else in one verb."""


def add_completion(group: click.Group) -> None:
    """Let the shell complete the parameters of every verb for which there are offers."""
    for words, command in commands(group):
        for parameter in command.params:
            name = parameter.name or ""
            offer = OF_VERB.get((words, name)) or OFFERS.get(name)
            if offer is not None and parameter.type is click.STRING:
                parameter.type = Offered(offer)
