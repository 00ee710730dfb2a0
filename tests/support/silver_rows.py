"""Silver rows of a golden folder, in the shape of its `silver.jsonl`.

`python -m tests.support.silver_rows FOLDER…` prints them, to be read before they are kept.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.config.load import located
from ingest.config.sources import Source
from ingest.config.yaml import read
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import DECODED
from ingest.files.framing import records
from ingest.formats import FORMATS
from ingest.wire.contract import Message

APART = ("decoded_at", "arrived", "value_hash")
"""What a golden folder leaves out: the time of decoding, and what its messages' coordinates and
the row's other columns tell (`tests/test_identity.py`)."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def messages(folder: Path) -> Iterator[Message]:
    """The messages of a golden folder; a plain file counts as the file `messages.jsonl`."""
    for name, framing in (("messages.jsonl", "lines"), ("messages.kcat.jsonl", "kcat")):
        if not (folder / name).exists():
            continue
        stream = io.BytesIO((folder / name).read_bytes())
        for number, record in enumerate(records(stream, framing)):
            yield Message(
                value=record.value,
                key=record.key,
                headers=record.headers or (),
                topic=record.topic if record.topic is not None else name,
                partition=record.partition or 0,
                offset=record.offset if record.offset is not None else number,
                timestamp=record.timestamp,
            )


def source_of(folder: Path) -> Source:
    """The source of a golden folder: its `source.yml`, the format that the parent folder names."""
    file = folder / "source.yml"
    given = read(file, environ={})[0].value if file.exists() else {}
    kcat = (folder / "messages.kcat.jsonl").exists()
    given.setdefault("format", folder.parent.name)
    source = Source.model_validate(
        {
            "name": "golden",
            "files": {"path": "*.jsonl", "framing": "kcat" if kcat else "lines"},
            **given,
        }
    )
    return located(source, folder, FORMATS)


def golden_rows(folder: Path) -> list[dict[str, Any]]:
    """Every silver row of the folder's messages, ready to be compared with JSON."""
    source = source_of(folder)
    reader = SourceDecoder(decode_spec(source))
    rows = [
        as_json(row) for message in messages(folder) for row in reader.rows(message, source.epoch)
    ]
    for row in rows:
        if row["error"] is not None:
            # Where the repository lies is no part of it.
            row["error"] = row["error"].replace(f"{folder.parent}/", "")
    return rows


def as_json(row: tuple[Any, ...]) -> dict[str, Any]:
    """One silver row by column name, without APART, and without `extra` where it is null."""
    return {
        column.name: _plain(value, column.type)
        for column, value in zip(DECODED, row, strict=True)
        if column.name not in APART and (column.name != "extra" or value is not None)
    }


def _plain(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_ == "timestamp":
        return (_EPOCH + timedelta(microseconds=value)).isoformat().replace("+00:00", "Z")
    if type_ == "binary":
        return base64.b64encode(value).decode()
    if type_.startswith("array<struct"):
        return [column._asdict() for column in value]
    return list(value) if type_.startswith("array") else value


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for row in golden_rows(Path(argument)):
            print(json.dumps(row, ensure_ascii=False))
