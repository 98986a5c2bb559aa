"""Each member of a ZooKeeper ensemble is asked by itself whether it serves."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from ha_core.store.members import members_away
from ha_core.store.security import OPEN

SERVES = b"Zookeeper version: 3.9.3\nMode: follower\nNode count: 5\n"
ALONE = b"This ZooKeeper instance is not currently serving requests\n"
FORBIDDEN = b"srvr is not executed because it is not in the whitelist.\n"


@pytest.fixture
def member() -> Iterator[Callable[[bytes | None], str]]:
    """A server that answers every question so, or is silent (None); returns its address."""
    with ExitStack() as opened:

        def start(answer: bytes | None) -> str:
            server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            if answer is not None:
                threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield start


def _serve(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            caller, _ = server.accept()
        except OSError:
            return
        with caller:
            assert caller.recv(4) == b"srvr"
            with suppress(ConnectionError):  # it has read enough
                caller.sendall(answer)


def test_members_that_serve_or_may_not_say_are_not_away(member: Callable[[bytes | None], str]) -> None:
    assert members_away(",".join([member(SERVES), member(SERVES), member(FORBIDDEN)]), OPEN) == ()


def test_members_that_are_dead_or_stand_still_or_lack_a_majority_are_away(
    member: Callable[[bytes | None], str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
    still, alone = member(None), member(ALONE)

    found = dict(members_away(f"{member(SERVES)},{dead},{still},{alone}/root", OPEN, wait_s=0.5))

    assert found.keys() == {dead, still, alone}
    assert "refused" in found[dead]
    assert found[still] == "did not answer within 0.5 s"
    assert "no connection to a majority" in found[alone]


def test_a_single_member_is_not_asked(member: Callable[[bytes | None], str]) -> None:
    assert members_away(member(None), OPEN) == ()


def test_an_answer_without_end_is_read_no_further_than_a_real_one(member: Callable[[bytes | None], str]) -> None:
    found = members_away(f"{member(SERVES)},{member(b'x' * 10_000_000)}", OPEN)

    assert len(found) == 1
