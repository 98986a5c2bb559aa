"""Commands to a stack's supervisor: JSON lines over a unix socket in its folder."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stack.errors import StackError
from stack.layout import Layout

MAX_LINE_BYTES = 1 << 20


@contextlib.contextmanager
def socket_path(root: Path) -> Iterator[str]:
    """A short path to the socket in `root`: an address holds 107 bytes, a folder's path may be longer."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{Layout(root).socket_name}"
    finally:
        os.close(fd)


def ask(root: Path, do: str, timeout_s: float = 180.0, **fields: Any) -> dict[str, Any]:
    """Send one command and return the answer; raises StackError if it is refused or not answered."""
    try:
        with socket_path(root) as path, socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout_s)
            line.connect(path)
            line.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n") and len(answer) < MAX_LINE_BYTES:
                chunk = line.recv(65536)
                if not chunk:
                    break
                answer += chunk
    except TimeoutError as error:
        raise StackError(f"the stack in {root} did not finish `{do}` within {timeout_s:.0f} s") from error
    except OSError as error:
        raise StackError(
            f"the stack in {root} does not answer ({error}): end what is left with `switchyard stack down`"
        ) from error
    if not answer:
        raise StackError(f"the stack in {root} ended during `{do}`")
    document: dict[str, Any] = json.loads(answer)
    if "error" in document:
        raise StackError(str(document["error"]))
    return document
