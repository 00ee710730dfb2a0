"""Runs a server for as long as standard input stays open: `python keeper.py FOLDER USER COMMAND…`.

Whoever starts it holds the other end: when that process ends, killed or not, the pipe closes, the
server is ended and its folder removed. USER is an account of this machine, or `-` for one's own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

ENDS_WITHIN = 10.0  # seconds


def main(folder: str, user: str, *command: str) -> int:
    """Keep the server; returns its exit code."""
    # Ctrl-C reaches all of a terminal: the end of the pipe is what counts here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    identity: dict[str, object] = {} if user == "-" else {"user": user, "group": user}
    if identity:
        identity["extra_groups"] = []
    log = os.path.join(folder, "server.log")
    with open(log, "ab") as output:
        server = subprocess.Popen(  # type: ignore[call-overload]
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=folder,
            **identity,
        )

    def end() -> None:
        while os.read(0, 4096):
            pass
        # SIGTERM lets a server close its files; what is open then is killed with its children.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(ENDS_WITHIN)
                break

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    code = server.wait()
    if ending.is_alive():
        # The server ended by itself: its log is for who waits for it.
        ending.join()
    shutil.rmtree(folder, ignore_errors=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
