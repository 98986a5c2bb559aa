"""A worker that sends each client its number: it listens at the shared port, has a page, and obeys files in a folder.

NUMBER.code makes it end with that code at once, NUMBER.unready is why it is not ready, `revision` is the one it
follows, and while NUMBER.late exists it does not begin to serve; while NUMBER.untold exists it does not report to its
parent. NUMBER.said is its standard input.
"""

import errno
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.process.workers import lifeline
from gateway.process.workers.ports import inherited
from ha_core.metrics.http import HttpServer

JOIN_AGAIN_S = 0.1


def main(folder: Path, number: str, parent: int, listeners: str) -> int:
    if not lifeline.die_with(parent):
        return 1
    with (folder / f"{number}.pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    code = folder / f"{number}.code"
    if code.exists():
        return int(code.read_text())
    with (folder / f"{number}.said").open("a") as said:
        said.write(sys.stdin.read() + "\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    late = folder / f"{number}.late"
    listener = inherited(int(listeners))
    why = folder / f"{number}.unready"

    def metrics() -> bytes:
        return b"# TYPE switchyard_gateway_starts counter\nswitchyard_gateway_starts_total 1\n"

    def connections(_asked: Any) -> tuple[int, object]:
        row = {"user": number, "client_id": None, "address": "a", "since": "s"}
        return 200, {"gateway": f"gw-1.{number}", "total": 1, "connections": [row]}

    def explain(_asked: Any) -> tuple[int, object]:
        revision, own = int((folder / "revision").read_text()), folder / f"{number}.leading"
        leading = own.read_text() if own.exists() else "east"
        return 200, {"gateway": f"gw-1.{number}", "revision": revision + int(number), "leading": leading}

    pages = {"/connections": connections, "/explain": explain}

    def unready() -> list[str]:
        return ["it has only begun"] if late.exists() else [why.read_text()] if why.exists() else []

    http = HttpServer("127.0.0.1", 0, metrics, unready, "", pages)
    port = http.start()
    lifeline.report(lifeline.WorkerState(port))
    print("a library that prints", flush=True)
    while late.exists():
        time.sleep(0.01)
    listen(listener)
    untold = folder / f"{number}.untold"
    while untold.exists():
        time.sleep(0.01)
    lifeline.report(lifeline.WorkerState(port, serving=True))
    while True:
        select.select([listener], [], [])  # as a loop does: who waits in `accept` is woken alone, and may hang
        try:
            client, _ = listener.accept()
        except OSError as error:  # another worker accepted the connection, or the client has left
            if error.errno == errno.EINVAL:  # the parent, not knowing this worker yet, shut the listener down
                time.sleep(JOIN_AGAIN_S)
                listen(listener)
            continue
        with suppress(OSError):
            client.sendall(number.encode())
            client.close()


def listen(listener: socket.socket) -> None:
    """Listens as `process/sockets/listeners` does."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.listen()
    listener.setblocking(False)


if __name__ == "__main__":
    _folder, _, _number, _, _pid, _, _listeners = sys.argv[1:]
    sys.exit(main(Path(_folder), _number, int(_pid), _listeners))
