"""What docs/ says of the code is what the code says, and nothing of it is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from sqlglot import parse_one
from sqlglot.expressions import Select

from ingest.codes import Code
from ingest.config.sources import TRANSPORTS
from ingest.formats import FORMATS
from ingest.sql.history.transactions import transactions
from ingest.sql.history.view import FIRST, LAST
from ingest.sql.metadata import METADATA
from pipelines.documentation.__main__ import SCHEMAS, made
from pipelines.documentation.codes import CURES
from pipelines.documentation.columns import MEANINGS
from pipelines.documentation.configuration import FILES, document, fields, printed, reference
from pipelines.documentation.pages import names, table, written
from pipelines.documentation.schema import schema
from pipelines.platform.leases import COLUMNS as LEASES
from tests.support.demo import ROOT
from tests.support.pages import CONF, PAGES, Block, of

DOCS = ROOT / "docs"
SOURCES = [*(ROOT / "ingest").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]
KEYS = [(what, path) for what, (_, model, _) in FILES.items() for path, _ in fields(model)]
VALIDATORS = {what: Draft202012Validator(schema(what)) for what in FILES}
CONF_FILES = [*(ROOT / "conf").glob("*.yml"), *(ROOT / "conf").glob("[st]*s/*.yml")]


def test_pages_say_what_the_code_says() -> None:
    late = [
        file.relative_to(ROOT).as_posix()
        for file, text in made(DOCS).items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    assert late == [], "`make docs` writes them anew"


def test_every_format_has_a_page_with_all_that_can_be_said_of_it() -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in DOCS.glob("formats/*.md")}
    assert set(pages) == {*FORMATS, "index"}
    for name in FORMATS:
        parts = [f"facts {name}", f"example {name}", f"options {name}", f"losses {name}"]
        assert sorted(names(pages[name])) == sorted(parts)
        for heading in ("Who sends it", "Set up the producer", "A message", "Mistakes"):
            assert f"## {heading}\n" in pages[name], f"{name}: {heading}"


def test_sentences_that_are_looked_up_are_said() -> None:
    """`docs/operations.md` quotes what the command says, `…` where names and values stand."""
    said = "\n".join(chain.from_iterable(map(texts, SOURCES)))
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    parks = re.search(r"### What parks a table\n.*?\n## ", page, re.DOTALL)
    night = re.search(r"## Three in the morning\n.*?\n### ", page, re.DOTALL)
    assert parks is not None and night is not None
    quoted = [quote for row in rows_of(parks[0]) for quote in re.findall(r"\*([^*]+)\*", row)]
    quoted += [quote for row in rows_of(night[0]) for quote in re.findall(r"`([^`]+)`", row)]
    pieces = [piece.strip(" :") for q in quoted for piece in re.split(r"\$\{…\}|…| [ST] ", q)]
    assert [piece for piece in pieces if piece not in said] == []
    assert len(quoted) > 30


def rows_of(part: str) -> list[str]:
    """The first cells of the rows of its table."""
    return [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| ")]


def texts(file: Path) -> Iterator[str]:
    """The texts in a module; a zero byte stands for each value that is put into one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(p.value) if isinstance(p, ast.Constant) else "\0" for p in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_code_has_a_cause_and_a_cure() -> None:
    assert set(CURES) == set(Code)
    assert all(cure.cause and cure.cure for cure in CURES.values())


def test_every_column_has_a_meaning() -> None:
    for name, (columns, meanings) in MEANINGS.items():
        assert [column for column, _ in columns] == list(meanings), name


@pytest.mark.parametrize("what", FILES)
def test_every_key_has_a_sentence(what: str) -> None:
    _, _, keys = FILES[what]
    assert {path for of_file, path in KEYS if of_file == what} == set(keys)
    changes = (ROOT / "docs/changelog.md").read_text(encoding="utf-8")
    released = set(re.findall(r"^## (\S+)$", changes, re.MULTILINE))
    assert {key.since for key in keys.values()} <= released


@pytest.mark.parametrize(("what", "path"), KEYS, ids=" ".join)
def test_examples_are_right_and_wrong_values_are_refused(what: str, path: str) -> None:
    key = FILES[what][2][path]
    assert printed(what, path, key.example) == []
    assert refused(what, document(what, path, key.example)) == []
    assert printed(what, path, key.wrong)


@pytest.mark.parametrize(("what", "path"), KEYS, ids=" ".join)
def test_a_default_may_be_written_as_it_is_shown(what: str, path: str) -> None:
    """`400` is no number of days, and `False` is no YAML."""
    page = reference(what).partition(f"### `{path}`\n")[2]
    shown = re.match(r"[^#]*?^- Default: `(.*?)`$", page, re.MULTILINE)
    if shown is None:
        return
    default = yaml.safe_load(shown[1]) if "{db}" not in shown[1] else shown[1]
    assert not isinstance(default, str) or default.lower() not in ("true", "false")
    assert printed(what, path, default) == []
    assert refused(what, document(what, path, default)) == []


@pytest.mark.parametrize(("what", "path"), KEYS, ids=" ".join)
def test_the_type_of_a_key_is_that_of_its_example(what: str, path: str) -> None:
    page = reference(what).partition(f"### `{path}`\n")[2]
    said = page.partition("- Type: ")[2].partition("\n")[0]
    example = FILES[what][2][path].example
    wanted = {dict: "keys with values", list: "a list of", bool: "`true` or `false`"}
    assert wanted.get(type(example), "") in said
    assert (type(example) is int) == (said == "a whole number") or said == "`1`, `2` or `append`"


def refused(what: str, content: Any) -> list[str]:
    """What the JSON Schema of a file has against its content."""
    return [error.message for error in VALIDATORS[what].iter_errors(content)]


def kind_of(name: str) -> str:
    return next(
        (what for what in ("source", "tables") if f"{what.rstrip('s')}s/" in name), "settings"
    )


@pytest.mark.parametrize("what", FILES)
def test_the_schemas_are_schemas(what: str) -> None:
    Draft202012Validator.check_schema(schema(what))
    assert set(SCHEMAS.values()) == set(FILES)


@pytest.mark.parametrize("file", CONF_FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_the_configuration_of_the_demo_is_of_the_schemas(file: Path) -> None:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert refused(kind_of(file.as_posix()), content) == []


@pytest.mark.parametrize("block", [b for b in of("yaml") if CONF.match(b.text)], ids=str)
def test_the_blocks_of_pages_are_of_the_schemas(block: Block) -> None:
    name = CONF.match(block.text)
    assert name is not None
    assert refused(kind_of(name[1]), yaml.safe_load(block.text)) == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("settings", "warehous: x"),
        ("settings", "ddl: {additive: aply}"),
        ("settings", "ddl: {aditive: apply}"),
        ("settings", "merge_threads: many"),
        ("settings", "retention: {bronze: 30}"),
        ("source", "{name: s, files: {path: x}, fromat: canal}"),
        ("source", "{name: s, files: {path: x}, format: canl}"),
        ("source", "{name: s, files: {path: x, framing: line}}"),
        ("source", "{name: s}"),
        ("source", "{name: s, files: {path: x}, kafka: {bootstrap_servers: 'b:1', topics: [t]}}"),
        ("source", "{name: s, files: {path: x}, format: canal, options: {tombstone: delete}}"),
        ("source", "{name: s, files: {path: x}, options: {tombstone: delte}}"),
        ("source", "{name: s, files: {path: x}, limits: {columns: all}}"),
        ("source", "{name: s, files: {path: x}, keys: {t: []}}"),
        ("tables", "{source: s, tables: [{target: x}]}"),
        ("tables", "{source: s, tables: [{from: x, deletes: none}]}"),
        ("tables", "{source: s, tables: [{from: x, ddl: {additive: aply}}]}"),
        ("tables", "{source: s, defaults: {from: x}}"),
        ("tables", "{tables: [{from: x}]}"),
    ],
)
def test_what_is_wrong_is_not_of_the_schemas(what: str, text: str) -> None:
    assert refused(what, yaml.safe_load(text))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("settings", "{merge_threads: '${THREADS}', ddl: {additive: '${POLICY:-apply}'}}"),
        ("source", "{name: s, files: {path: x}, epoch: '${EPOCH:-0}', format: '${FORMAT}'}"),
    ],
)
def test_variables_stand_for_any_value(what: str, text: str) -> None:
    assert refused(what, yaml.safe_load(text)) == []


def test_the_schema_knows_every_transport() -> None:
    properties = schema("source")["properties"]
    assert set(TRANSPORTS) <= set(properties)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link that leads nowhere is one, and a page that no menu leads to."""
    build = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [*build, "-d", tmp_path / "trees", DOCS, tmp_path / "site"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site/schema/source.schema.json").exists()
    menu = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES[1:]}
    assert {page for page in pages if f'href="{page}"' not in menu} == {"index.html"}


def test_links_of_readme_lead_somewhere() -> None:
    """Those between the pages are checked by `make docs`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(links) > 20


def test_every_page_of_the_site_has_one_title() -> None:
    for page in PAGES[1:]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        included = page.parent.name == "internals"
        assert included or len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page


def test_only_what_stands_between_the_marks_is_written_anew() -> None:
    text = "a\n<!-- generated: list x y -->\nold\n<!-- end -->\nb\n"
    new = written(text, {"list": lambda *words: "|".join(words)})
    assert new == "a\n<!-- generated: list x y -->\n\nx|y\n\n<!-- end -->\nb\n"
    assert written(new, {"list": lambda *words: "|".join(words)}) == new
    with pytest.raises(KeyError):
        written(text, {})


def test_a_cell_of_a_table_is_one_line() -> None:
    assert table(["a", "b"], [["1\n2", "x | y"]]) == "| a | b |\n| --- | --- |\n| 1 2 | x \\| y |"


@pytest.mark.parametrize(
    ("heading", "columns"),
    [
        (
            "### Views of silver",
            parse_one(transactions("t", change="pos"), into=Select).named_selects,
        ),
        (r"## gold.\<target\>", METADATA),
        ("## _leases", [name for name, _ in LEASES]),
    ],
)
def test_columns_that_no_table_of_the_code_has_are_named_by_hand(
    heading: str, columns: Sequence[str]
) -> None:
    rows = of_tables(heading).partition("| column")[2]
    first = re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(first)) == list(columns)


def test_columns_of_history_are_named() -> None:
    named = set(re.findall(r"`(\w+)`", of_tables(r"## history.\<target\>")))
    assert set(FIRST + LAST) <= named


def of_tables(heading: str) -> str:
    """A section of the page on tables."""
    page = (DOCS / "reference/tables.md").read_text(encoding="utf-8")
    return re.split(r"\n#+ ", page.partition(f"\n{heading}\n")[2])[0]
