"""README.md and the pages of docs/ as tests read them: fenced blocks, and what is done with each.

| block | what is tested |
|---|---|
| `sh` | every `ingest` is run on the demo, every `make` is a target |
| `bash` | shape alone: `ingest` is parsed, of other programs the verbs and options are known |
| `console` | excerpts of what the demo printed |
| `sql` | run on the demo, and finds something; a `text` block after it is what it printed |
| `mysql`, `postgresql`, `tsql` | read as statements of that database |
| `yaml` | a file of `conf/`: loaded; of another platform: its commands are parsed |
| `dockerfile` | its steps are known, it copies what `make wheel` makes, extras are there |
| `json`, `properties` | read |
| `python` | run; `print(…)  # …` says what it prints |
| `text` | what the block before it prints, or written by `pipelines.documentation` |
"""

from __future__ import annotations

import csv
import functools
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from ingest.config.load import Config, load
from tests.support.demo import ROOT, Demo, ingest

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("[!R]*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONF = re.compile(r"# (conf/[\w./-]+\.yml)\n")
GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
# What other programs are asked for in `bash` blocks: verb -> its options.
PROGRAMS: Mapping[str, Mapping[str, set[str]]] = {
    "databricks": {
        "bundle deploy": {"-t", "--var"},
        "bundle run": {"-t", "--params"},
        "bundle destroy": {"-t"},
        "bundle validate": {"-t"},
    },
    "kubectl": {
        "apply": {"-f", "-n"},
        "create secret": {"-n", "--from-literal"},
        "create configmap": {"-n", "--from-file"},
        "logs": {"-n", "-f"},
        "get": {"-n"},
        "exec": {"-n", "-it"},
    },
    "cdc": {"cli changefeed create": {"--server", "--changefeed-id", "--sink-uri"}},
    "pg_recvlogical": {"": {"-d", "--slot", "--create-slot", "--start", "-P", "-o", "-f"}},
    "docker": {"build": {"-t", "-f"}, "run": {"--rm", "-v", "-e", "-w"}, "push": set()},
    "kcat": {"": {"-b", "-t", "-C", "-J", "-o", "-e", "-c", "-q", "-F"}},
    "pip": {
        "install": {"--no-cache-dir"},
        "wheel": {"--no-deps", "--wheel-dir"},
        "download": {"--dest"},
    },
    "apt-get": {"update": set(), "install": {"-y", "--no-install-recommends"}},
    "useradd": {"": {"--uid", "--create-home"}},
    "python": {"-m pipelines.platform.class_archive": {"-m"}},
    **{word: {"": {"-p", "-r", "-a"}} for word in ("mkdir", "cp", "cd", "rsync", "tar", "zip")},
    "curl": {"": {"-s", "-X", "-H", "-d"}},
    "spark-sql": {"": {"-e"}},
}

# `spark-submit --help` of Spark 4.2
SUBMIT = frozenset(
    "--master --deploy-mode --name --conf --jars --packages --py-files --files --archives "
    "--driver-memory --executor-memory --executor-cores --num-executors --properties-file "
    "--queue --principal --keytab".split()
)


class Block(NamedTuple):
    """One fenced block: its language, what it holds, its page and the line on which it begins."""

    language: str
    text: str
    line: int
    page: Path = ROOT / "README.md"

    def __str__(self) -> str:
        return f"{self.page.stem}-{self.language}-{self.line}"


def blocks(text: str, page: Path = ROOT / "README.md") -> list[Block]:
    """The fenced blocks of a Markdown text."""
    found = re.finditer(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE)
    return [
        Block(
            m[2].strip(), re.sub(f"(?m)^{m[1]}", "", m[3]), text.count("\n", 0, m.start()) + 1, page
        )
        for m in found
    ]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def of(language: str) -> list[Block]:
    """The blocks of one language on all pages."""
    found = [block for page in PAGES for block in blocks(text_of(page), page)]
    return [block for block in found if block.language == language]


def commands(block: Block) -> Iterator[str]:
    """The lines of a shell, those that end with a backslash joined to the next."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def run_commands(block: Block, demo: Demo) -> str:
    """Run each `ingest` of the block; of `make` see that there is such a target. Gives what the
    last one printed."""
    printed = ""
    for line in commands(block):
        command, _, rest = line.partition(" ")
        if command == "make":
            check_target(rest)
            continue
        assert command == "ingest", f"expected ingest or make, got {line!r}"
        printed = _once(demo.folder, rest, demo=_Kept(demo))
        # Gold that is as it should be is nothing to print.
        assert bool(printed.strip()) != rest.startswith("reconcile"), (
            f"{line!r} printed {printed!r}"
        )
    return printed


class _Kept:
    """A demo as an argument of a function that remembers: all are equal."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


@functools.cache
def _once(folder: Path, words: str, *, demo: _Kept) -> str:
    """What a command prints, which is run once however many pages show it."""
    return ingest(demo.demo, words)


def check_target(words: str) -> None:
    """See that the Makefile has the target."""
    target = shlex.split(words, comments=True)[0]
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"no make target {target}"


def check_shape(line: str) -> None:
    """See that a command that cannot be run here asks for what there is."""
    words = shlex.split(line.partition(" | ")[0], comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if not words:
        return
    program = words[0].rpartition("/")[2]
    if program == "ingest":
        check_words(words[1:])
    elif program == "make":
        check_target(" ".join(words[1:]))
    elif program == "spark-submit":
        check_submit(words[1:])
    elif program not in ("export", "eval", "source", "echo"):
        assert program in PROGRAMS, f"{program} is no program of the pages: {line!r}"
        verbs = PROGRAMS[program]
        verb = next((v for v in verbs if words[1 : 1 + len(v.split())] == v.split()), None)
        assert verb is not None, f"{program} has no such verb: {line!r}"
        end = words.index("--") if "--" in words else len(words)
        check_shape(shlex.join(words[end + 1 :]))
        used = {word.partition("=")[0] for word in words[1:end] if word.startswith("-")}
        assert used <= verbs[verb], f"unknown options: {line!r}"
        if program == "databricks":
            check_variables(words)


def check_variables(words: list[str]) -> None:
    """See that each variable of a bundle is one that there is: `--var` is a list with commas, and
    what stands behind a comma is another variable, unless it is quoted as in CSV."""
    declared = yaml.safe_load((ROOT / "conf/bundle/variables.yml").read_text(encoding="utf-8"))
    given = [words[at + 1] for at, word in enumerate(words) if word == "--var"]
    for pair in (pair for row in csv.reader(given) for pair in row):
        name, equals, _ = pair.partition("=")
        assert equals and name in declared["variables"], f"no variable of the bundle: {pair!r}"


def check_words(words: list[str]) -> None:
    """Parse the words after `ingest` as the command does, without running the verb."""
    from pipelines.cli.app import ingest as command

    try:
        with command.make_context("ingest", list(words)) as context:
            _descend(context)
    except click.exceptions.Exit:
        return
    except click.ClickException as error:
        raise AssertionError(f"ingest {' '.join(words)}: {error.format_message()}") from error


def _descend(context: click.Context) -> None:
    if not isinstance(context.command, click.Group):
        return
    name, inner, rest = context.command.resolve_command(
        context, [*context._protected_args, *context.args]
    )
    assert name is not None and inner is not None
    with inner.make_context(name, rest, parent=context) as below:
        _descend(below)


def check_submit(words: list[str]) -> None:
    """See that the options of spark-submit are its own, and that the words behind it parse."""
    at = 0
    while words[at].startswith("--"):
        assert words[at] in SUBMIT, f"spark-submit has no {words[at]}"
        at += 2
    check_words(words[at + 1 :])


def run_query(block: Block, demo: Demo) -> str:
    """Run the block's query, which must find something; gives the table for people."""
    assert ingest(demo, f"sql {shlex.quote(block.text)} --json").strip(), "the query found nothing"
    return ingest(demo, f"sql {shlex.quote(block.text)}")


def write_conf(parts: list[Block], folder: Path) -> Path:
    """The YAML blocks as the files that their first lines name; gives the conf folder."""
    for block in parts:
        name = CONF.match(block.text)
        assert name is not None, f"line {block.line}: expected `# conf/….yml` first"
        path = folder / name[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    return folder / "conf"


def environment(parts: list[Block]) -> dict[str, str]:
    """A value for every variable that the blocks need."""
    named = r"\$\{(\w+)\}|\benv:([A-Z]\w+)"
    found = (either for block in parts for either in re.findall(named, block.text))
    return {name or secret: "value of some length" for name, secret in found}


def load_page(page: Path, base: list[Block], folder: Path) -> Config:
    """The configuration that a page comes to: its blocks over those of `base`. Each block is
    checked as it stands where it comes, for the same file may be shown twice."""
    parts = [b for b in blocks(text_of(page), page) if b.language == "yaml" and CONF.match(b.text)]
    environ = environment([*base, *parts])
    conf = write_conf(base, folder)
    config = load(conf, environ=environ)
    shown: list[Block] = []
    for block in parts:
        again = CONF.match(block.text)
        assert again is not None
        if any(block_.text.startswith(again[0]) for block_ in shown):
            config = load(conf, environ=environ)
        write_conf([block], folder)
        shown.append(block)
    return load(conf, environ=environ) if parts else config


def check_platform(block: Block) -> None:
    """A YAML file of another platform: sound, and what it runs is a command."""
    for document in yaml.safe_load_all(block.text):
        assert isinstance(document, dict), f"line {block.line}: expected keys with values"
        for words in _word_lists(document):
            if words[0] == "ingest":
                check_words(words[1:])


def check_image(block: Block) -> None:
    """See that an image is made of the wheel of today by commands that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wheel = f"delta_cdc_ingest-{project['version']}-py3-none-any.whl"
    for line in commands(block):
        step, _, rest = line.partition(" ")
        assert step in ("FROM", "RUN", "COPY", "USER"), f"no step of the pages: {line!r}"
        if step == "COPY":
            assert rest.split()[:-1] == [f"dist/{wheel}"], f"not made by `make wheel`: {line!r}"
        for command in rest.split(" && ") if step == "RUN" else ():
            check_shape(command)
            for extras in re.findall(r"\.whl\[([\w,]+)\]", command):
                assert wheel in command
                assert set(extras.split(",")) <= set(project["optional-dependencies"])


def _word_lists(value: Any) -> Iterator[list[str]]:
    if isinstance(value, dict):
        command, arguments = value.get("command"), value.get("args")
        if isinstance(command, list):
            yield [*command, *(arguments or ())]
        for inner in value.values():
            yield from _word_lists(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _word_lists(inner)


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
