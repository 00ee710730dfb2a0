"""The pages of the review as HTML: no script, and no request to anywhere else.

All text from a source passes the templates' escaping, and control characters, including those that
change the direction of writing, are spelled out. The server also forbids scripts, so that a slip
would have no effect.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ingest.errors import PlatformError
from pipelines.ledger.entries import WAITING
from pipelines.terminal.console import cell, clean, counted
from pipelines.web.review import Change, Inbox, fingerprint

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = files("pipelines.web")
"""Resources of the package, which may be zipped."""
STYLE = _FOLDER / "style.css"


def check_libraries() -> None:
    """Raise PlatformError if the library of the pages is not installed."""
    if find_spec("jinja2") is None:
        raise PlatformError(
            "`ingest review` needs jinja2: install the extra `report`, "
            "pip install 'delta-cdc-ingest[report]'"
        )


def inbox_page(inbox: Inbox, *, warehouse_name: str) -> str:
    """The changes that wait and the decisions that were taken, in the warehouse of that name."""
    return _rendered("inbox", inbox=inbox, warehouse_name=warehouse_name, title="Schema changes")


def change_page(
    change: Change, *, warehouse_name: str, form: str, by: str, error: str | None
) -> str:
    """One change. `form`: the token of its form; `by`: who decides, if that is known; `error`: why
    the decision was not taken."""
    return _rendered(
        "change",
        change=change,
        warehouse_name=warehouse_name,
        title=f"Schema change {change['id'][:8]}",
        decidable=change["status"] in WAITING,
        form=form,
        by=by,
        error=error,
        seen=fingerprint(change),
    )


def message_page(title: str, text: str, *, warehouse_name: str = "") -> str:
    """A page that only says something."""
    return _rendered("message", title=title, text=text, warehouse_name=warehouse_name)


def _rendered(name: str, **values: Any) -> str:
    return _templates().get_template(f"{name}.html.j2").render(values)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(lambda name: (_FOLDER / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        cell=cell, lines=_lines, number=lambda number: f"{number:,}", counted=counted
    )
    return made


def _lines(text: str | None) -> str:
    """A statement with its line breaks; all other unprintable characters are spelled out."""
    return "\n".join(map(clean, (text or "").split("\n")))
