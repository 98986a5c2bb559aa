"""Ports of one stack: a block below the ephemeral range, locked as long as the stack lives.

The kernel could give ephemeral ports to outgoing connections while a killed part is down; a block below that range
stays free for the restart, and two stacks that start at once never choose one block.

Blocks are used in turn, so that the ports of an ended stack rest for long. Otherwise a client that outlived its stack
would find the next one there, and its METADATA requests would create its topics on brokers with auto-creation.
"""

import fcntl
import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stack.errors import StackError

FIRST_PORT = 12000
BLOCK_PORTS = 400
BLOCKS = 50
LAST = "last-claimed"
SINGLE_PORTS = 80
"""The first ports of a block are assigned one by one, the others as ranges for virtual nodes."""
RANGED_PORTS = BLOCK_PORTS - SINGLE_PORTS


@dataclass
class PortBlock:
    """Ports `first … first + BLOCK_PORTS - 1`, reserved until the process ends."""

    first: int
    lock_fd: int
    singles: int = 0
    ranged: int = SINGLE_PORTS

    def next_port(self) -> int:
        if self.singles == SINGLE_PORTS:
            raise StackError(
                f"a stack has {SINGLE_PORTS} ports for its parts, and this one asks for more: use fewer parts"
            )
        self.singles += 1
        return self.first + self.singles - 1

    def take_range(self, count: int) -> int:
        """The first of `count` consecutive ports."""
        if self.ranged + count > BLOCK_PORTS:
            raise StackError(f"the gateways ask for more than {RANGED_PORTS} ports: use fewer gateways")
        self.ranged += count
        return self.first + self.ranged - count

    def close(self) -> None:
        """Release the block."""
        os.close(self.lock_fd)


def claim() -> PortBlock:
    """The next block in turn whose lock is free and whose ports are unused.

    Raises StackError when every block is taken.
    """
    # One lock folder per machine, whatever cache a stack uses: with two folders, two stacks could choose one block.
    locks = Path(tempfile.gettempdir()) / f"switchyard-ports-{os.getuid()}"
    locks.mkdir(parents=True, exist_ok=True)
    after = _last_claimed(locks) + 1
    for turn in range(BLOCKS):
        number = (after + turn) % BLOCKS
        first = FIRST_PORT + number * BLOCK_PORTS
        fd = os.open(locks / f"{first}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        if all(_is_free(port) for port in range(first, first + BLOCK_PORTS)):
            (locks / LAST).write_text(str(number))
            return PortBlock(first, fd)
        os.close(fd)
    last = FIRST_PORT + BLOCKS * BLOCK_PORTS - 1
    raise StackError(f"no block of {BLOCK_PORTS} free ports between {FIRST_PORT} and {last}: end a stack first")


def _last_claimed(locks: Path) -> int:
    """Number of the last claimed block, or -1. Two callers that read the same number get different locks."""
    try:
        return int((locks / LAST).read_text())
    except (FileNotFoundError, ValueError):
        return -1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
