"""The help of every verb has an example that parses, and the shell has words to complete with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from pipelines.cli.app import ingest
from pipelines.cli.examples import EXAMPLES, commands
from tests.support.demo import ROOT
from tests.support.pages import check_shape

VERBS = {words: command for words, command in commands(ingest) if not command.hidden}


@pytest.mark.parametrize("words", VERBS)
def test_every_verb_has_an_example_that_parses(words: str) -> None:
    command = VERBS[words]
    named = {"info_name": f"ingest {words}".strip(), **ingest.context_settings}
    text = command.get_help(click.Context(command, **named))
    examples = [line for line in (command.epilog or "").splitlines() if "ingest " in line]
    assert examples
    for line in examples:
        assert line in text, "click joined the lines of the examples"
        check_shape(line.rpartition(" | ")[2])
        if words and not isinstance(command, click.Group):
            assert f"ingest {words}" in line or words == "validate"


def test_the_list_of_verbs_has_whole_sentences() -> None:
    groups = [
        (words, command) for words, command in VERBS.items() if isinstance(command, click.Group)
    ]
    for words, command in groups:
        named = {"info_name": f"ingest {words}".strip(), **ingest.context_settings}
        context = click.Context(command, terminal_width=80, **named)
        listed = command.get_help(context).partition("Commands:")[2]
        cut = [line for line in listed.splitlines() if line.endswith("...")]
        assert not cut, words


def test_every_example_is_of_a_verb() -> None:
    assert set(EXAMPLES) <= set(VERBS)


def completed(folder: Path, *words: str) -> list[str]:
    """What is offered for the last of the words typed after `ingest` in a folder."""
    before, last = list(words[:-1]), words[-1]
    here = os.getcwd()
    os.chdir(folder)
    try:
        offered = ShellComplete(ingest, {}, "ingest", "_INGEST_COMPLETE").get_completions(
            before, last
        )
    finally:
        os.chdir(here)
    return [item.value for item in offered]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A configuration with a source, and gold with two tables."""
    for name in ("sources", "tables"):
        (tmp_path / "conf" / name).mkdir(parents=True)
    (tmp_path / "conf/sources/shop.yml").write_text("name: shop\nfiles: {path: x}\n")
    (tmp_path / "conf/tables/shop.yml").write_text(
        "source: shop\ntables: [{from: '*'}, {from: a.b, target: orders_of_all}]\n"
    )
    for name in ("shop_orders", "shop_items", "_progress"):
        (tmp_path / "warehouse/gold" / name / "_delta_log").mkdir(parents=True)
    return tmp_path


def test_names_of_verbs_and_options_are_completed(project: Path) -> None:
    verbs = ["rebuild", "reconcile", "redecode", "rejects", "report", "reset", "review"]
    assert completed(project, "re") == verbs
    assert completed(project, "ddl", "a") == ["approve"]
    assert "--continuous" in completed(project, "run", "--c")


def test_sources_targets_formats_and_codes_are_completed(project: Path) -> None:
    assert completed(project, "run", "--source", "") == ["shop"]
    assert completed(project, "redecode", "--source", "s") == ["shop"]
    assert completed(project, "history", "") == ["orders_of_all", "shop_items", "shop_orders"]
    assert completed(project, "run", "--table", "shop_o") == ["shop_orders"]
    assert completed(project, "formats", "deb") == ["debezium", "debezium_avro"]
    assert completed(project, "inspect", "--format", "can") == ["canal"]
    assert completed(project, "inspect", "--framing", "hex") == ["hex_lines"]
    assert completed(project, "rejects", "replay", "--code", "bad_j") == ["bad_json"]


def test_the_conf_folder_that_was_typed_counts(project: Path, tmp_path: Path) -> None:
    (project / "conf").rename(project / "other")
    assert completed(project, "run", "--source", "") == []
    assert completed(project, "--conf", "other", "run", "--source", "") == ["shop"]


def test_a_shell_is_given_the_script_and_the_words() -> None:
    program = [sys.executable, "-m", "pipelines.cli.app"]
    asked = {**os.environ, "_INGEST_COMPLETE": "bash_source"}
    script = subprocess.run(program, cwd=ROOT, env=asked, capture_output=True, text=True)
    assert "complete -o nosort -F" in script.stdout and "_INGEST_COMPLETE=bash_complete" in (
        script.stdout
    )
    typed = {"_INGEST_COMPLETE": "bash_complete", "COMP_WORDS": "ingest run --source ca"}
    words = subprocess.run(
        program,
        cwd=ROOT,
        env={**os.environ, **typed, "COMP_CWORD": "3"},
        capture_output=True,
        text=True,
    )
    assert words.stdout.split() == ["plain,canal"]
