"""README.md and docs/ are run: every command, every YAML and SQL block, every excerpt of output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sqlglot

from ingest.config.load import load
from ingest.errors import ConfigError
from ingest.formats import FORMATS
from tests.support import pages
from tests.support.demo import ROOT, Demo
from tests.support.pages import CONF, PAGES, Block, blocks, compare, of, run_commands, run_query

SECRETS = {"KAFKA_USER": "reader", "KAFKA_PASSWORD": "secret"}
LANGUAGES = {
    *("sh", "bash", "console", "yaml", "sql", "text", "python", "json", "properties"),
    *("mysql", "postgresql", "tsql", "plpgsql", "ini", "dockerfile"),
}
BASE = [
    block
    for block in blocks((ROOT / "docs/sources.md").read_text(encoding="utf-8"))
    if block.language == "yaml"
]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_is_of_a_language_that_is_tested(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    marked = {block for block in found if block.language.startswith("{")}
    assert {block.language for block in found} - {block.language for block in marked} <= LANGUAGES
    # A fence that does not close, or one that no test sees.
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found)
    own = blocks(pages.GENERATED.sub("", text))
    for before, block in zip([None, *own], own, strict=False):
        if block.language == "text":
            follows = before is not None and before.language in ("sql", "sh")
            assert follows, f"line {block.line} of what is written by hand: output of nothing"


@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_commands(block: Block, demo: Demo) -> None:
    printed = run_commands(block, demo)
    after = following(block)
    if after is not None:
        compare(after.text, printed)


@pytest.mark.parametrize("block", of("bash"), ids=str)
def test_commands_of_other_platforms(block: Block) -> None:
    for line in pages.commands(block):
        pages.check_shape(line)


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_programs(block: Block, tmp_path: Path) -> None:
    if "pipelines" in block.text:
        compile(block.text, str(block), "exec")
        return
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == re.findall(r"print\(.*  # (.*)", block.text)


@pytest.mark.parametrize("block", of("sql"), ids=str)
def test_queries(block: Block, demo: Demo) -> None:
    printed = run_query(block, demo)
    after = following(block)
    if after is not None:
        compare(after.text, printed)


def following(block: Block) -> Block | None:
    """The output that stands right behind a block."""
    text = block.page.read_text(encoding="utf-8")
    after = next((b for b in blocks(text, block.page) if b.line > block.line), None)
    return after if after is not None and after.language == "text" else None


@pytest.mark.parametrize("block", of("console"), ids=str)
def test_output(block: Block, demo: Demo) -> None:
    steps = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    shown = {step.partition("\n")[0]: step.partition("\n")[2] for step in steps}
    assert [step for step in demo.printed if step in shown] == list(shown)
    for step, excerpt in shown.items():
        compare(excerpt, demo.printed[step])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_configuration(page: Path, tmp_path: Path) -> None:
    pages.load_page(page, BASE, tmp_path)


def test_the_example_configuration(tmp_path: Path) -> None:
    conf = pages.write_conf(BASE, tmp_path)
    tables = blocks((ROOT / "docs/tables.md").read_text(encoding="utf-8"))
    pages.write_conf([b for b in tables if b.text.startswith("# conf/tables/shop.yml")], tmp_path)
    config = load(conf, environ=SECRETS)
    assert list(config.sources) == ["depot", "shop"]
    kafka = config.sources["shop"].kafka
    assert kafka is not None
    assert kafka.options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="reader" password="secret";'
    )
    way = config.route("shop", db="shop", schema=None, table="items")
    assert way is not None and (way.target, way.exclude) == ("shop_items", ("internal_note",))


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_files_of_other_platforms(block: Block) -> None:
    if not CONF.match(block.text):
        pages.check_platform(block)


@pytest.mark.parametrize("block", of("dockerfile"), ids=str)
def test_images(block: Block) -> None:
    pages.check_image(block)
    for wrong in ("CPY a b", "COPY dist/ingest.zip /tmp/", "RUN pip instal x", "RUN ingest vers"):
        with pytest.raises(AssertionError):
            pages.check_image(block._replace(text=wrong))


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", of("properties") + of("ini"), ids=str)
def test_properties(block: Block) -> None:
    lines = [line for line in block.text.splitlines() if line and line[0] not in "#[;"]
    assert lines and all(re.fullmatch(r"[\w.<>-]+ ?= ?.*", line) for line in lines)


@pytest.mark.parametrize("dialect", ["mysql", "postgresql", "tsql", "plpgsql"])
def test_statements_of_other_databases(dialect: str) -> None:
    read = {"postgresql": "postgres", "plpgsql": "oracle"}.get(dialect, dialect)
    for block in of(dialect):
        assert all(sqlglot.parse(block.text, read=read)), f"{block}"


def test_the_formats_are_all_there() -> None:
    section = (ROOT / "docs/formats/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`(\w+)`\]\(\1\.md\) \| .+ \| (\w+) \|$", section, re.MULTILINE)
    assert dict(listed) == {name: format_.order for name, format_ in FORMATS.items()}


@pytest.mark.parametrize(
    "command",
    ["ingest statsu", "ingest history no_such_table", "make tea", "curl example.org", "ingest ddl"],
)
def test_a_wrong_command_is_found(command: str, demo: Demo) -> None:
    with pytest.raises(AssertionError):
        run_commands(Block("sh", command, 1), demo)


@pytest.mark.parametrize(
    "command",
    [
        *("ingest statsu", "ingest status --shuorce x", "ingest ddl shwo 1", "make tea", "sudo ls"),
        *("databricks bundel deploy", "databricks bundle deploy --vra x", "kubectl aply -f x"),
        "databricks bundle deploy --var 'values=KAFKA=broker-1:9092,broker-2:9092'",
        *("spark-submit --matser x app.py run", "spark-submit --master local app.py rnu"),
    ],
)
def test_a_wrong_shape_is_found(command: str) -> None:
    with pytest.raises(AssertionError):
        pages.check_shape(command)


@pytest.mark.parametrize(
    "query",
    ["SELECT nothing FROM gold.canal_orders", "SELECT * FROM gold.canal_orders WHERE order_id = 0"],
)
def test_a_wrong_query_is_found(query: str, demo: Demo) -> None:
    with pytest.raises(AssertionError):
        run_query(Block("sql", query, 1), demo)


def test_wrong_yaml_is_found(tmp_path: Path) -> None:
    parts = [block._replace(text=block.text.replace("framing", "framnig")) for block in BASE]
    with pytest.raises(ConfigError, match="framnig"):
        load(pages.write_conf(parts, tmp_path), environ=SECRETS)


@pytest.mark.parametrize("excerpt", ["b\na", "a\nc", "a b c", "…x"])
def test_a_wrong_excerpt_is_found(excerpt: str) -> None:
    with pytest.raises(AssertionError, match="not printed"):
        compare(excerpt, "a\nb\n")
    compare("a\n…\nb", "a\nx  y\nb\n")
