"""The wire formats, by name. This dict is the only registry."""

from __future__ import annotations

from ingest.formats import dms, maxwell, ogg, wal2json
from ingest.formats.canal import cloudcanal
from ingest.formats.canal import json as canal
from ingest.formats.dataworks import json as dataworks
from ingest.formats.debezium import avro as debezium_avro
from ingest.formats.debezium import json as debezium
from ingest.formats.dts import avro as dts
from ingest.formats.oceanbase import avro as ob_avro
from ingest.formats.oms import dataworks as oms_dataworks
from ingest.formats.oms import default, shareplex
from ingest.formats.ticdc import open as ticdc_open
from ingest.formats.ticdc import simple
from ingest.wire.contract import Format

FORMATS: dict[str, Format] = {
    "ob_avro": ob_avro.FORMAT,
    "oms_default": default.FORMAT,
    "oms_dataworks": oms_dataworks.FORMAT,
    "oms_shareplex": shareplex.FORMAT,
    "dataworks": dataworks.FORMAT,
    "canal": canal.FORMAT,
    "cloudcanal": cloudcanal.FORMAT,
    "debezium": debezium.FORMAT,
    "debezium_avro": debezium_avro.FORMAT,
    "maxwell": maxwell.FORMAT,
    "ogg": ogg.FORMAT,
    "dms": dms.FORMAT,
    "ticdc_open": ticdc_open.FORMAT,
    "ticdc_simple": simple.FORMAT,
    "wal2json": wal2json.FORMAT,
    "dts": dts.FORMAT,
}


def order_scheme(declared: str, format_: str | None) -> str:
    """By what rows of a format are ordered, `source` or `arrival`, if their source declares this
    `order`. Messages without a format are ordered by arrival."""
    if declared != "auto":
        return declared
    return FORMATS[format_].order if format_ is not None else "arrival"
