"""The reference of the command `ingest`: its verbs as click knows them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from pipelines.cli.app import ingest
from pipelines.documentation.pages import code, fenced, table


def verbs(
    command: click.Command = ingest, name: str = "ingest", above: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every verb that is shown, groups before what is in them: its words, what it is, where."""
    # A command keeps the help option of the first context that asks for it.
    settings = command.context_settings
    context = click.Context(command, info_name=name.split()[-1], parent=above, **settings)
    yield name, command, context
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from verbs(found, f"{name} {inner}", context)


def reference() -> str:
    """Every verb: what it does, how it is written, its options, an example."""
    return "\n\n".join(_verb(*verb) for verb in verbs())


def _verb(name: str, command: click.Command, context: click.Context) -> str:
    usage = f"{name} {' '.join(command.collect_usage_pieces(context))}"
    parts = [f"## `{name}`", *_paragraphs(command.help or ""), fenced("text", usage)]
    records = [p.get_help_record(context) for p in command.get_params(context)]
    everywhere = ("--json", "--warehouse", "--conf") if name != "ingest" else ()
    options = [
        (code(option), text)
        for option, text in filter(None, records)
        if option.startswith("-") and not option.startswith(everywhere) and "--help" not in option
    ]
    if options:
        parts.append(table(("option", "what it does"), options))
    if command.epilog:
        lines = [line.strip() for line in command.epilog.splitlines()]
        examples = [line for line in lines if line.startswith("ingest ")]
        parts.append(fenced("bash", "\n".join(examples)))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.replace("\b", "").split("\n\n"):
        if paragraph.strip():
            yield " ".join(paragraph.split()).replace("<", "\\<")
