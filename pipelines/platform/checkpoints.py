"""Files beside the streams: written whole or not at all, and what to say of a damaged one."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from ingest.errors import SourceError

COPIES = "what it has is taken up once more, and copies count once: no gold table changes"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that its reader finds the old one or the new, whoever else writes it and
    whenever the process ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: another driver may write the file at the same moment.
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def read_note(file: Path) -> dict[str, Any]:
    """The JSON object in a file that may be lost; empty where there is none."""
    try:
        found = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def damaged(source: str, stream: str, *, remove: str) -> SourceError | None:
    """The sentence on a damaged checkpoint and the way out of it; None where its files are whole.

    `stream` is Structured Streaming's folder, which holds `metadata` (JSON) and, a file a batch,
    `offsets` and `commits`: a line with a version, then lines of JSON or `-`. `remove` is the
    folder that has to go.
    """
    folder = Path(stream)
    for file in [
        folder / "metadata",
        *folder.glob("offsets/[0-9]*"),
        *folder.glob("commits/[0-9]*"),
    ]:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            if file.name != "metadata" and (not lines or not lines.pop(0).startswith("v")):
                raise ValueError("it does not begin with a version")
            if not lines:
                raise ValueError("it ends too early")
            for line in lines:
                if line != "-":
                    json.loads(line)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return spoilt(source, file, error, remove=remove, then=COPIES)
    return None


def spoilt(
    source: str, file: str | Path, error: Exception, *, remove: str, then: str
) -> SourceError:
    """One file of a checkpoint cannot be read: which, why, and what to do."""
    return SourceError(
        f"source {source}: a checkpoint is damaged, {file} cannot be read ({error}). Remove the"
        f" folder {remove} and run again: {then}."
    )
