"""The wire formats, by name. This dict is the only registry."""

from __future__ import annotations

from ingest.formats import (
    canal,
    cloudcanal,
    dataworks,
    debezium,
    debezium_avro,
    dms,
    dts,
    maxwell,
    ob_avro,
    ogg,
    oms_dataworks,
    oms_default,
    oms_shareplex,
    ticdc_open,
    ticdc_simple,
    wal2json,
)
from ingest.formats.format import Format

FORMATS: dict[str, Format] = {
    "ob_avro": ob_avro.FORMAT,
    "oms_default": oms_default.FORMAT,
    "oms_dataworks": oms_dataworks.FORMAT,
    "oms_shareplex": oms_shareplex.FORMAT,
    "dataworks": dataworks.FORMAT,
    "canal": canal.FORMAT,
    "cloudcanal": cloudcanal.FORMAT,
    "debezium": debezium.FORMAT,
    "debezium_avro": debezium_avro.FORMAT,
    "maxwell": maxwell.FORMAT,
    "ogg": ogg.FORMAT,
    "dms": dms.FORMAT,
    "ticdc_open": ticdc_open.FORMAT,
    "ticdc_simple": ticdc_simple.FORMAT,
    "wal2json": wal2json.FORMAT,
    "dts": dts.FORMAT,
}
