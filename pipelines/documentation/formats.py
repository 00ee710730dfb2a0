"""The parts of a format's page that follow from its row of FORMATS, and an example from conf/."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from functools import cache
from glob import glob
from typing import Any

from ingest.config.load import load
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import SILVER
from ingest.files.framing import records
from ingest.formats import FORMATS
from ingest.wire.contract import Message
from pipelines.documentation.pages import code, fenced, table

_SHOWN = tuple(
    """
    op op_raw db schema table key key_before before after before_image after_image unavailable id
    sequenceId storeDataSequence scn event_time sent_time tx_id warnings
    """.split()
)
_COLUMNS = tuple(column.name for column in SILVER)
_BYTES = 192
"""How many bytes of a binary message are shown."""


def overview() -> str:
    """All formats, a line each."""
    rows = [
        (f"[`{name}`]({name}.md)", format_.summary, format_.order)
        for name, format_ in FORMATS.items()
    ]
    return table(("format", "messages", "`order: auto`"), rows)


def facts(name: str) -> str:
    """How messages are recognised and ordered, and what ends their transactions."""
    format_ = FORMATS[name]
    ends = (
        f" end with {_text(format_.ends)}"
        if format_.ends
        else ": no message names the one that has ended"
    )
    log = "" if format_.order == "source" else "; `order: source` takes the other"
    return "\n".join(
        [
            f"- **Recognised** by: {_text(format_.recognised)}.",
            f"- **Ordered** {_text(format_.ordered)}.",
            f"- **`order: auto`** means `{format_.order}`{log}.",
            f"- **Transactions**{ends}.",
            f"- **Defined** by {_text(format_.source)}.",
        ]
    )


def options(name: str) -> str:
    """The format's own options."""
    found = FORMATS[name].options
    if not found:
        return "It has none."
    rows = []
    for key, option in found.items():
        words = ", ".join(code(choice) for choice in option.choices) or option.kind
        rows.append((code(key), words, _default(option.default), _text(option.text)))
    return table(("option", "values", "default", "what it changes"), rows)


def losses(name: str) -> str:
    """What arrives otherwise than the source had it, and what the format cannot carry."""
    format_ = FORMATS[name]
    lines = [
        f"- **{_text(loss.what)}**: {_text(loss.why)}" + ("; declare `columns`" * loss.mended)
        for loss in format_.losses
    ]
    none = "None: values arrive as the source had them."
    cannot = [(code(column), _text(why)) for column, why in format_.impossible.items()]
    made = "\n".join(lines) or none
    if cannot:
        made += "\n\nColumns of silver that it cannot fill:\n\n"
        made += table(("column", "why"), cannot)
    return made


def example(name: str) -> str:
    """An update of the demo, as it was sent, and the row of silver that it becomes."""
    sent, row = _examples()[name]
    declared = f"conf/sources/{row['source']}.yml"
    parts = []
    if sent.key is not None:
        parts += ["The message's key:", _shown(sent.key)]
    parts += ["The message:" if sent.key is None else "Its value:", _shown(sent.value or b"")]
    shown = [(column, row[column]) for column in _SHOWN if row[column] not in (None, [], {})]
    parts.append(f"The row of `silver.cdc` that it becomes, with what `{declared}` declares:")
    parts.append(table(("column", "value"), [(code(c), code(_cell(v))) for c, v in shown]))
    return "\n\n".join(parts)


@cache
def _examples() -> Mapping[str, tuple[Message, Mapping[str, Any]]]:
    """Of each format an update in the demo's files, else the first change."""
    found: dict[str, tuple[Message, Mapping[str, Any]]] = {}
    for message, row in _demo():
        if row["kind"] == "change" and row["table"] == "orders":
            known = found.get(row["format"])
            if known is None or (known[1]["op"] != "update" and row["op"] == "update"):
                found[row["format"]] = message, row
    return found


def _demo() -> Iterator[tuple[Message, Mapping[str, Any]]]:
    config = load("conf", environ={})
    for source in config.sources.values():
        decoder = SourceDecoder(decode_spec(source))
        assert source.files is not None
        for ordinal, file in enumerate(sorted(glob(source.files.path, recursive=True))):
            with open(file, "rb") as stream:
                for at, record in enumerate(records(stream, source.files.framing, name=file)):
                    message = Message.of(record, file, partition=ordinal, offset=at)
                    for values in decoder.rows(message, 0):
                        yield message, dict(zip(_COLUMNS, (*values, None), strict=True))


def _shown(value: bytes) -> str:
    """A message as a block: JSON spread over lines, other bytes in hexadecimal digits."""
    try:
        parsed = json.loads(value)
    except ValueError:
        lines = [value[at : at + 24].hex(" ") for at in range(0, min(len(value), _BYTES), 24)]
        more = f"\n… {len(value):,} bytes in all" if len(value) > _BYTES else ""
        return fenced("text", "\n".join(lines) + more)
    # Numbers as they stand: a reader of JSON may round them.
    exact = json.loads(value, parse_float=_Number, parse_int=_Number)
    return fenced("json", _spread(exact if isinstance(parsed, dict | list) else parsed))


class _Number(str):
    """A number with the digits that it has in the message."""


def _spread(value: Any, indent: int = 0) -> str:
    """JSON over lines, small objects and lists on one."""
    flat = _flat(value)
    if len(flat) + indent <= 88 or not isinstance(value, dict | list) or not value:
        return flat
    space = " " * (indent + 2)
    if isinstance(value, dict):
        inner = [f"{json.dumps(k)}: {_spread(v, indent + 2)}" for k, v in value.items()]
        opened, closed = "{", "}"
    else:
        inner = [_spread(item, indent + 2) for item in value]
        opened, closed = "[", "]"
    body = ",\n".join(space + line for line in inner)
    return f"{opened}\n{body}\n{' ' * indent}{closed}"


def _flat(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> str:
    from pipelines.cli.inspect import instant
    from pipelines.terminal.console import json_value

    if isinstance(value, int):
        value = instant(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _default(default: Any) -> str:
    if default in (None, "", ()):
        return "none"
    if isinstance(default, bool):
        return code(str(default).lower())
    return code(", ".join(default) if isinstance(default, tuple) else str(default))


def _text(text: str) -> str:
    """Plain text as Markdown: nothing in it marks anything, links are links."""
    escaped = "".join(f"\\{letter}" if letter in "*_<>[]`$" else letter for letter in text)
    words = escaped.split(" ")
    return " ".join(_link(word) if "https://" in word else word for word in words)


def _link(word: str) -> str:
    plain = word.replace("\\", "")
    end = len(plain.rstrip(",.;)"))
    return f"<{plain[:end]}>{plain[end:]}"
