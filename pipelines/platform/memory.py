"""How much memory this process may use: the machine's or, where a pod, a container or a service of
systemd has a bound (`limits.memory`, `MemoryMax`), no more than that.

Linux keeps such a bound in a control group: version 2 in `memory.max`, version 1 in
`memory.limit_in_bytes`. It holds for the groups below, too, so all above the process are asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def allowed_memory(own: Path = _OWN, groups: Path = _GROUPS) -> int:
    """Bytes; 0 where nobody tells. `own` names the groups of this process, `groups` has them."""
    known = [_of_machine(), *_bounds(own, groups)]
    return min((size for size in known if size), default=0)


def _of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def _bounds(own: Path, groups: Path) -> Iterator[int]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A container sees its own group as the root, whatever the path says.
        group = root / path.strip("/")
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):
                # `max` where there is no bound.
                yield int((folder / name).read_text(encoding="ascii"))
            if folder == root:
                break
