"""`ingest formats`: what the formats are, what one of them needs, and what the codes mean."""

from __future__ import annotations

from typing import Any

from ingest.codes import Code
from ingest.errors import ConfigError, Mistake
from ingest.formats import FORMATS

LISTED = ("name", "summary", "order")
CODES = ("code", "severity", "text")


def listed() -> list[list[Any]]:
    """Every format in a line, see LISTED."""
    return [[name, format_.summary, format_.order] for name, format_ in FORMATS.items()]


def codes() -> list[list[Any]]:
    """Every error and warning code in a line, see CODES."""
    return [[code.value, code.severity, code.text] for code in Code]


def described(name: str) -> dict[str, Any]:
    """All that can be said of one format; raises ConfigError where there is no such."""
    format_ = FORMATS.get(name)
    if format_ is None:
        from ingest.config.mistakes import unknown_word

        raise ConfigError([Mistake("command line", None, unknown_word("NAME", name, FORMATS))])
    return {
        "name": name,
        "summary": format_.summary,
        "source": format_.source,
        "recognised": format_.recognised,
        "ordered": format_.ordered,
        "order": format_.order,
        "ends": format_.ends or None,
        "options": {
            key: {
                "kind": option.kind,
                "default": option.default,
                "choices": list(option.choices),
                "text": option.text,
            }
            for key, option in format_.options.items()
        },
        "impossible": dict(format_.impossible),
        "losses": [loss._asdict() for loss in format_.losses],
    }


def for_people(description: dict[str, Any]) -> dict[str, str]:
    """A description with its options and impossible columns written out, a line each."""
    options = []
    for key, option in description["options"].items():
        default = option["default"]
        said = (
            "none"
            if default in (None, "", ())
            else str(default).lower()
            if (isinstance(default, bool))
            else ", ".join(default)
            if isinstance(default, tuple)
            else str(default)
        )
        choices = f" ({' | '.join(option['choices'])})" if option["choices"] else ""
        options.append(f"{key}{choices}, default {said}: {option['text']}")
    cannot = [f"{column}: {why}" for column, why in description["impossible"].items()]
    losses = [
        f"{loss['what']}: {loss['why']}" + ("; declare columns" if loss["mended"] else "")
        for loss in description["losses"]
    ]
    plain = {key: description[key] for key in ("name", "summary", "recognised", "ordered")}
    return {
        **plain,
        "order: auto": description["order"],
        "transactions": f"end with {description['ends']}"
        if description["ends"]
        else "no message names the one that has ended",
        "options": "\n".join(options) or "none",
        "cannot carry": "\n".join(cannot) or "nothing is missing",
        "losses": "\n".join(losses) or "none: values arrive as the source had them",
        "vendor": description["source"],
    }
