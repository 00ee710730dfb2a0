"""README.md is run: every command, every YAML and SQL block, every excerpt of output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ingest.config.load import load
from ingest.errors import ConfigError
from ingest.formats import FORMATS
from tests.support.demo import ROOT, Demo, ingest

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SECRETS = {"KAFKA_USER": "reader", "KAFKA_PASSWORD": "secret"}


class Block(NamedTuple):
    """One fenced block: what it holds, and the line of README.md on which it begins."""

    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.language}-{self.line}"


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]


def of(language: str) -> list[Block]:
    """README's blocks of one language."""
    return [block for block in blocks(README) if block.language == language]


def run_commands(block: Block, demo: Demo) -> None:
    """Run each `ingest` of the block; of `make` see that there is such a target."""
    for line in block.text.splitlines():
        command, _, rest = line.partition(" ")
        if command == "make":
            target = rest.split()[0]
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"no make target {target}"
        else:
            assert command == "ingest", f"expected ingest or make, got {line!r}"
            # Gold that is as it should be is nothing to print.
            printed = ingest(demo, rest).strip()
            assert bool(printed) != rest.startswith("reconcile"), f"{line!r} printed {printed!r}"


def run_query(block: Block, demo: Demo) -> str:
    """Run the block's query, which must find something; gives the table for people."""
    import shlex

    assert ingest(demo, f"sql {shlex.quote(block.text)} --json").strip(), "the query found nothing"
    return ingest(demo, f"sql {shlex.quote(block.text)}")


def write_conf(parts: list[Block], folder: Path) -> Path:
    """The YAML blocks as the files that their first lines name; gives the conf folder."""
    for block in parts:
        name = re.match(r"# (conf/[\w/]+\.yml)\n", block.text)
        assert name is not None, f"line {block.line}: expected `# conf/….yml` first"
        path = folder / name[1]
        assert not path.exists(), f"line {block.line}: {name[1]} stands twice"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    return folder / "conf"


def compare(excerpt: str, printed: str) -> None:
    """See that the lines of `excerpt` were printed in this order; `…` stands for anything.

    Runs of spaces count as one: how wide a column is depends on the paths in it.
    """
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = 0
    for line in excerpt.splitlines():
        wanted = " ".join(line.split())
        if wanted == "…":
            continue
        pattern = re.compile(re.escape(wanted).replace("…", ".*"))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        assert at < len(lines), f"not printed: {line}"
        at += 1


def test_every_block_is_of_a_language_that_is_tested() -> None:
    counted = {block.language for block in blocks(README)}
    assert counted == {"sh", "console", "yaml", "sql", "text", "bash", "python"}


@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_commands(block: Block, demo: Demo) -> None:
    run_commands(block, demo)


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_programs(block: Block) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == re.findall(r"print\(.*  # (.*)", block.text)


@pytest.mark.parametrize("block", of("sql"), ids=str)
def test_queries(block: Block, demo: Demo) -> None:
    printed = run_query(block, demo)
    after = next((b for b in blocks(README) if b.line > block.line), None)
    if after is not None and after.language == "text":
        compare(after.text, printed)


def test_output(demo: Demo) -> None:
    (block,) = of("console")
    steps = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    shown = {step.partition("\n")[0]: step.partition("\n")[2] for step in steps}
    assert list(shown) == list(demo.printed)[: len(shown)]
    for step, excerpt in shown.items():
        compare(excerpt, demo.printed[step])


def test_configuration(tmp_path: Path) -> None:
    conf = write_conf(of("yaml"), tmp_path)
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


def test_deployment_is_the_bundle_alone() -> None:
    lines = [line for block in of("bash") for line in block.text.splitlines() if line]
    assert {line.split()[0] for line in lines} == {"export", "databricks"}


def test_the_formats_are_all_there() -> None:
    section = README.partition("## Formats\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| .+ \| (\w+) \|$", section, re.MULTILINE)
    assert dict(listed) == {name: format_.order for name, format_ in FORMATS.items()}


@pytest.mark.parametrize(
    "command",
    ["ingest statsu", "ingest history no_such_table", "make tea", "curl example.org", "ingest ddl"],
)
def test_a_wrong_command_is_found(command: str, demo: Demo) -> None:
    with pytest.raises(AssertionError):
        run_commands(Block("sh", command, 1), demo)


@pytest.mark.parametrize(
    "query",
    ["SELECT nothing FROM gold.canal_orders", "SELECT * FROM gold.canal_orders WHERE order_id = 0"],
)
def test_a_wrong_query_is_found(query: str, demo: Demo) -> None:
    with pytest.raises(AssertionError):
        run_query(Block("sql", query, 1), demo)


def test_wrong_yaml_is_found(tmp_path: Path) -> None:
    parts = [
        block._replace(text=block.text.replace("shard_column", "shard_colunm"))
        for block in of("yaml")
    ]
    with pytest.raises(ConfigError, match="shard_colunm"):
        load(write_conf(parts, tmp_path), environ=SECRETS)


@pytest.mark.parametrize("excerpt", ["b\na", "a\nc", "a b c", "…x"])
def test_a_wrong_excerpt_is_found(excerpt: str) -> None:
    with pytest.raises(AssertionError, match="not printed"):
        compare(excerpt, "a\nb\n")
    compare("a\n…\nb", "a\nx  y\nb\n")
