"""Every citation of a rule, in code and in names of scenarios, leads to `ingest/semantics.md`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ingest/semantics.md"
RULE = re.compile(r'^- <a id="r(\d+)"></a>\*\*(\d+)\.\*\*', re.MULTILINE)
NUMBERS = r"\d+(?:(?:, | and | to |, and )\d+)*"
CITED = re.compile(rf"semantics\.md,\s+({NUMBERS})")
SHORT = re.compile(rf"[a-z`;,]\s\(({NUMBERS})\)")
"""In docstrings and comments that have named the page, or are about what a rule says."""
ABOUT_RULES = (
    *("ingest/fold", "ingest/sql", "ingest/decode", "ingest/identity"),
    *("pipelines/apply", "pipelines/gold", "pipelines/ledger", "pipelines/targets"),
)
HEADING = re.compile(r'semantics\.md, "([^"]+)"')


def rules() -> list[int]:
    found = RULE.findall(PAGE.read_text())
    assert all(anchor == number for anchor, number in found)
    return [int(number) for number, _ in found]


def sources() -> dict[str, str]:
    """Path -> text of everything that may cite a rule."""
    folders = ("ingest", "pipelines", "tests")
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".yml") and path != Path(__file__)
    }


def test_the_rules_are_numbered_without_gaps() -> None:
    assert sorted(rules()) == list(range(1, 80))


def test_every_citation_leads_to_a_rule() -> None:
    known = set(rules())
    cited = {
        (path, int(number))
        for path, text in sources().items()
        for numbers in CITED.findall(text)
        for number in re.findall(r"\d+", numbers)
    }
    assert len(cited) > 60
    assert sorted((path, number) for path, number in cited if number not in known) == []
    headings = re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)
    named = {name for text in sources().values() for name in HEADING.findall(text)}
    assert named and named <= set(headings)


def test_short_citations_lead_to_a_rule() -> None:
    known = set(rules())
    short = [
        (path, int(number))
        for path, text in sources().items()
        if path.startswith(ABOUT_RULES)
        for numbers in SHORT.findall(text)
        for number in re.findall(r"\d+", numbers)
    ]
    assert len(short) > 10 and [one for one in short if one[1] not in known] == []


def test_scenarios_are_named_by_rules() -> None:
    known = set(rules())
    named = [
        int(found.group(1))
        for folder in (ROOT / "tests/merge").iterdir()
        if (found := re.match(r"r(\d+)_", folder.name))
    ]
    assert len(named) > 50 and set(named) <= known
