"""What `make demo` does: two days of messages through `ingest`, then a look at what came of them.

Each step is a command as anyone would type it, run in this one process so that Spark starts once.
`DEMO_FILES` narrows the files in conf/sources: the first run sees Monday's alone, as if Tuesday's
had not come yet. Played again it adds nothing.
"""

from __future__ import annotations

import os
import shlex

from pipelines.cli.app import main

STEPS = (
    "DEMO_FILES='1-*' ingest run",
    "ingest run --source canal --source oms",
    "ingest status",
    "ingest ddl list",
    "ingest rejects list",
    "ingest sql 'SELECT * EXCEPT (_pos) FROM gold.canal_customers ORDER BY customer_id'",
    "ingest history canal_customers --key customer_id=1",
)


def play(step: str) -> None:
    """Run one command line, with the variables that stand before it; SystemExit where it fails."""
    words = shlex.split(step)
    verb = words.index("ingest")
    variables = dict(word.split("=", 1) for word in words[:verb])
    os.environ.update(variables)
    try:
        main(words[verb + 1 :])
    finally:
        for name in variables:
            del os.environ[name]


if __name__ == "__main__":
    for step in STEPS:
        print(f"$ {step}", flush=True)
        play(step)
        print(flush=True)
