"""A worker that serves nobody: it listens at the shared port, has a page, and does as files in a folder say.

NUMBER.code has it end with that code at once, NUMBER.unready is why it is not ready, `revision` is what it follows.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from gateway.workers import lifeline
from ha_core.metrics.http import HttpServer


def main(folder: Path, number: str, parent: int) -> int:
    if not lifeline.die_with(parent):
        return 1
    with (folder / f"{number}.pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    code = folder / f"{number}.code"
    if code.exists():
        return int(code.read_text())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listener = socket.create_server(
        ("127.0.0.1", json.loads((folder / "config.json").read_text())["listen"]["port"]), reuse_port=True
    )
    why = folder / f"{number}.unready"

    def metrics() -> bytes:
        return b"# TYPE switchyard_gateway_starts counter\nswitchyard_gateway_starts_total 1\n"

    def connections(_asked: Any) -> tuple[int, object]:
        row = {"user": number, "client_id": None, "address": "a", "since": "s"}
        return 200, {"gateway": f"gw-1.{number}", "total": 1, "connections": [row]}

    def explain(_asked: Any) -> tuple[int, object]:
        return 200, {"gateway": f"gw-1.{number}", "revision": (folder / "revision").read_text()}

    pages = {"/connections": connections, "/explain": explain}
    http = HttpServer("127.0.0.1", 0, metrics, lambda: [why.read_text()] if why.exists() else [], "", pages)
    port = http.start()
    lifeline.tell(lifeline.Told(port))
    print("a library that prints", flush=True)
    lifeline.tell(lifeline.Told(port, serving=True))
    while True:
        listener.accept()


if __name__ == "__main__":
    _folder, _, _number, _, _pid = sys.argv[1:]
    sys.exit(main(Path(_folder), _number, int(_pid)))
