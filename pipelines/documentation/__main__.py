"""`python -m pipelines.documentation`: write the parts of the pages of docs/ that follow from the
code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pipelines.documentation import codes, columns, commands, configuration, formats
from pipelines.documentation.pages import Writer, pages, written
from pipelines.documentation.schema import schema

WRITERS: dict[str, Writer] = {
    "configuration": configuration.reference,
    "columns": columns.reference,
    "commands": commands.reference,
    "codes": codes.reference,
    "listed_codes": codes.listed,
    "formats": formats.overview,
    "facts": formats.facts,
    "options": formats.options,
    "losses": formats.losses,
    "example": formats.example,
}
"""The first word of a generated part -> what writes it; the words behind are its arguments."""
SCHEMAS = {"ingest": "settings", "source": "source", "tables": "tables"}


def made(docs: Path) -> Mapping[Path, str]:
    """Every file of `docs` that has a part from the code, as it should be."""
    files = {page: page.read_text(encoding="utf-8") for page in pages(docs)}
    found = {page: written(text, WRITERS) for page, text in files.items() if "<!-- gen" in text}
    for name, what in SCHEMAS.items():
        text = json.dumps(schema(what), indent=2, ensure_ascii=False)
        found[docs / "published" / "schema" / f"{name}.schema.json"] = f"{text}\n"
    return found


def main(docs: Path) -> None:
    """Write them."""
    for file, text in made(docs).items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(file)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["docs"]))
