"""What holds of the silver rows of any message, whatever its format and whatever its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingest.codes import Code
from ingest.events import DECODED, IMAGES, KINDS, OPS
from ingest.formats import FORMATS
from ingest.position import HALF, LENGTH, OFFSET, PHASE, ROW, S1, SNAPSHOT
from ingest.wire.contract import Message

NAMES = tuple(column.name for column in DECODED)
_WORDS = {code.value: code.severity for code in Code}
_HOLDS = {
    "insert": (False, True),
    "snapshot": (False, True),
    "delete": (True, False),
    "update": (None, True),
    "truncate": (False, False),
}
"""op -> whether the row before and the row after are there; None: either."""
_PYTHON = {"string": str, "int": int, "bigint": int, "binary": bytes, "timestamp": int}


def broken(message: Message, rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Every promise that the rows of a message break; none for rows as they should be."""
    if not rows:
        return ["the message vanished"]
    if any(len(row) != len(NAMES) for row in rows):
        return ["a row is not in the order of SILVER"]
    found: list[str] = []
    dicts = [dict(zip(NAMES, row, strict=True)) for row in rows]
    for row in dicts:
        found += _of_words(row)
        found += _of_types(row)
        if _coordinates(row) != (message.topic, message.partition, message.offset):
            found.append("the row has lost its coordinates")
        if row["kind"] == "reject":
            found += _of_reject(row, message)
        if row["kind"] == "change":
            found += _of_images(row)
            found += _of_pos(row)
    if any(row["kind"] == "reject" for row in dicts) and len(rows) > 1:
        found.append("a rejected message has other rows besides")
    events = [row["row"] for row in dicts if row["kind"] != "schema"]
    if events != list(range(len(events))):
        found.append(f"the events are numbered {events}")
    return found


def _coordinates(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["offset"]


def _of_words(row: dict[str, Any]) -> list[str]:
    """Only words of the vocabulary."""
    found = []
    kind, op = row["kind"], row["op"]
    if kind not in KINDS:
        found.append(f"unknown kind {kind}")
    if op not in OPS.get(kind, (None,)):
        found.append(f"unknown op {op} of kind {kind}")
    for side in ("before", "after"):
        word = row[f"{side}_image"]
        if (word is None) != (row[side] is None):
            found.append(f"{side} is {word} and its image {row[side]}")
        if word is not None and word not in IMAGES:
            found.append(f"unknown image {word}")
    for code in row["warnings"] or ():
        if _WORDS.get(code) != "warning":
            found.append(f"unknown warning {code}")
    if len(set(row["warnings"] or ())) != len(row["warnings"] or ()):
        found.append("a warning stands twice")
    code = row["error_code"]
    if (code is None) != (kind != "reject"):
        found.append(f"error_code {code} of kind {kind}")
    if code is not None and _WORDS.get(code) != "error":
        found.append(f"unknown error {code}")
    if code == Code.DECODER_FAILED.value:
        found.append(f"the decoder failed: {row['error']}")
    if row["format"] is not None and row["format"] not in FORMATS:
        found.append(f"unknown format {row['format']}")
    return found


def _of_types(row: dict[str, Any]) -> list[str]:
    """Python values of the columns' types; null instead of empty lists and maps."""
    found = []
    for column in DECODED:
        value = row[column.name]
        if value is None:
            continue
        wanted = _PYTHON.get(column.type)
        if wanted is not None:
            if value.__class__ is not wanted:
                found.append(f"{column.name} is {value!r}")
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                found.append(f"{column.name} does not fit: {value}")
        elif not value:
            found.append(f"{column.name} is empty, not null")
        elif column.type == "map<string,string>":
            texts = [*value, *(text for text in value.values() if text is not None)]
            if any(text.__class__ is not str for text in texts):
                found.append(f"{column.name} holds more than text: {value}")
    return found


def _of_reject(row: dict[str, Any], message: Message) -> list[str]:
    found = []
    if row["value"] != (message.value or b""):
        found.append("a reject has lost the message's bytes")
    if not row["error"]:
        found.append("a reject gives no reason")
    return found


def _of_images(row: dict[str, Any]) -> list[str]:
    found = []
    for side, there in zip(("before", "after"), _HOLDS[row["op"]], strict=True):
        if there is False and row[side] is not None:
            found.append(f"{row['op']} has a row {side}")
        # A delete by its key alone has no image, nor one of a row whose NULLs were left out.
        told = side == "before" and (row["key_columns"] or "old_missing" in (row["warnings"] or ()))
        if there and row[side] is None and not told:
            found.append(f"{row['op']} has no row {side}")
    images = [row[side] for side in ("before", "after") if row[side] is not None]
    for name in row["unavailable"] or ():
        # Of an update one image may have held nothing but the placeholder.
        if len(images) == 2 - (row["op"] != "update") and all(name in i for i in images):
            found.append(f"{name} is unavailable and stands in every image")
    return found


def _of_pos(row: dict[str, Any]) -> list[str]:
    pos = row["pos"]
    if len(pos) != LENGTH or any(number.__class__ is not int for number in pos):
        return [f"pos is {pos}"]
    found = []
    if not all(-(2**63) <= number < 2**63 for number in pos):
        found.append(f"pos does not fit: {pos}")
    if (pos[0], pos[S1], pos[OFFSET], pos[ROW]) != (
        row["epoch"],
        row["s1"],
        row["offset"],
        row["row"],
    ):
        found.append(f"pos contradicts the row: {pos}")
    if pos[HALF] not in (0, 1):
        found.append(f"unknown half: {pos}")
    if row["op"] == "snapshot" and pos[PHASE] != SNAPSHOT:
        found.append("a snapshot row lies among the stream's")
    return found
