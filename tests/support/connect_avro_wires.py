"""One row change as Debezium sends it in Avro: a producer for `tests.support.encoders`.

The schemas go where a registry would keep them, into files of a folder that lasts as long as the
tests do.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.changes import Change, Wire
from tests.support.connect_avro import SchemaFiles, completed, escaped

_FOLDER = tempfile.TemporaryDirectory(prefix="ingest-schemas-")
FILES = SchemaFiles(Path(_FOLDER.name), rename=escaped)


def wires(debezium: Callable[[Change], bytes]) -> dict[str, Wire]:
    """The wire that sends in Avro what `debezium` sends as JSON with schema."""

    def encode(change: Change) -> bytes:
        framed = FILES.framed(completed(json.loads(debezium(change))))
        assert framed is not None
        return framed

    options = {"schema_folder": _FOLDER.name, "field_name_adjustment": "avro_unicode"}
    return {"debezium_avro": Wire("debezium_avro", encode, options=options)}
