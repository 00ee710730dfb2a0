"""`publish: transaction` goes with formats that tell where a transaction ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.config.load import load
from ingest.errors import ConfigError
from ingest.formats import FORMATS

OPTIONS = {"debezium_avro": "options: {schema_folder: schemas}\n"}


@pytest.mark.parametrize("name", ["auto", *FORMATS])
def test_whole_transactions_are_of_formats_that_tell_their_ends(tmp_path: Path, name: str) -> None:
    """What `auto` meets is known to the run alone, which says so."""
    for folder in ("sources", "tables"):
        (tmp_path / "conf" / folder).mkdir(parents=True)
    files = "files: {path: in/*.jsonl}\n"
    source = f"name: shop\nformat: {name}\n{files}{OPTIONS.get(name, '')}"
    (tmp_path / "conf/sources/shop.yml").write_text(source)
    tables = tmp_path / "conf/tables/shop.yml"
    tables.write_text("source: shop\npublish: transaction\n")
    if name == "auto" or FORMATS[name].ends:
        found = load(tmp_path / "conf", environ={})
        assert found.tables["shop"].publish == "transaction"
        return
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "conf", environ={})
    [mistake] = caught.value.mistakes
    assert (mistake.file, mistake.line) == (str(tables), 2)
    start = (
        "`publish`: expected event for the source shop, got `transaction`: messages of the format"
    )
    assert mistake.text.startswith(f"{start} {name} do not tell where a transaction ends, so gold")
    *_, others = mistake.text.partition("; those of ")
    assert others.startswith("ob_avro, debezium,") and name not in others
