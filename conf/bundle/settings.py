"""Writes the configuration that a deployment reads: a copy of conf with its own settings.

Called by the bundle's build (artifacts.yml) on the machine that deploys, so it needs nothing but
Python. `--set` replaces a setting of ingest.yml, `--values` fills in `${NAME}` and
`${NAME:-default}` in every YAML file; a name without a value stays for the environment of the job.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

# A deployment writes to its catalog; the embedded warehouse would only mislead there.
LOCAL_ONLY = {"warehouse"}
TOP_LEVEL_KEY = re.compile(r"""(['"]?)([\w.-]+)\1\s*:(\s|$)""")
# Safe in a plain and in a quoted YAML scalar alike.
VALUE = re.compile(r"[\w.,:/@+=-]*")


def drop_settings(text: str, names: set[str]) -> str:
    """Take the named top-level keys, with all that belongs to them, out of a block mapping."""
    kept: list[str] = []
    dropping = False
    for line in text.splitlines(keepends=True):
        # A comment or blank line at the margin may belong to the next key: it stays.
        remark = line.strip() == "" or line.startswith("#")
        # Indented lines, and the bracket that ends a flow mapping, belong to the key above.
        if not remark and line[0] not in " }]":
            key = TOP_LEVEL_KEY.match(line)
            if key is None and line.strip() != "---":
                raise SystemExit(f"settings: expected `name: value` in ingest.yml, got {line!r}")
            dropping = key is not None and key[2] in names
        if remark or not dropping:
            kept.append(line)
    return "".join(kept)


def write_settings(text: str, settings: dict[str, str]) -> str:
    """Put `settings` (a dotted name is a key of a mapping) in place of what `text` says of them."""
    nested: dict[str, str | dict[str, str]] = {}
    for name, value in settings.items():
        if not value:
            raise SystemExit(f"settings: expected a value for {name}, got none")
        top, _, below = name.partition(".")
        mapping = nested.setdefault(top, {}) if below else None
        if below and isinstance(mapping, dict):
            mapping[below] = value
        elif not below and top not in nested:
            nested[top] = value
        else:
            raise SystemExit(f"settings: expected {top} as a value or as a mapping, got both")
    kept = drop_settings(text, set(nested) | LOCAL_ONLY)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    # A JSON value is a YAML value, with everything in it quoted.
    return kept + "".join(f"{name}: {json.dumps(value)}\n" for name, value in nested.items())


def fill_in(text: str, values: dict[str, str]) -> str:
    """Replace `${NAME}` and `${NAME:-default}` for the names in `values`, and only those."""
    for name, value in values.items():
        # No character of a value means anything in a replacement.
        text = re.sub(rf"\$\{{{re.escape(name)}(:-[^}}]*)?\}}", value, text)
    return text


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """Read NAME=VALUE texts; the value may hold more equals signs."""
    parsed = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and VALUE.fullmatch(value)):
            raise SystemExit(
                f"settings: expected NAME=VALUE with letters, digits and _ . , : / @ + = - "
                f"in the value, got {pair!r}"
            )
        parsed[name] = value
    return parsed


def deploy_conf(
    source: Path, target: Path, *, settings: dict[str, str], values: dict[str, str]
) -> None:
    """Write `target` anew from `source`, without the bundle's own folder."""
    shutil.rmtree(target, ignore_errors=True)
    own = Path(__file__).parent.name
    shutil.copytree(
        source, target, ignore=lambda folder, _: {own} if Path(folder) == source else set()
    )
    main = target / "ingest.yml"
    text = main.read_text(encoding="utf-8") if main.exists() else ""
    main.write_text(write_settings(text, settings), encoding="utf-8")
    for path in target.rglob("*.yml"):
        path.write_text(fill_in(path.read_text(encoding="utf-8"), values), encoding="utf-8")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="settings", description=__doc__)
    parser.add_argument("source", type=Path, help="the configuration of the repository")
    parser.add_argument("target", type=Path, help="the folder to write, replaced if it is there")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--values", default="", metavar="'NAME=VALUE …'")
    given = parser.parse_args(arguments)
    if not given.source.is_dir():
        raise SystemExit(f"settings: expected a configuration folder, found none at {given.source}")
    deploy_conf(
        given.source,
        given.target,
        settings=parse_pairs(given.settings),
        values=parse_pairs(given.values.split()),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
