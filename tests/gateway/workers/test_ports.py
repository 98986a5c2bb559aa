"""The port that workers share: refused while no worker serves, and whole again when one does."""

import os
import socket

import pytest

from gateway.process.workers.ports import SharedPorts, inherited
from tests.kit.own_gateway import free_port


@pytest.mark.parametrize("refusals", [1, 2, 3])
def test_a_port_serves_again_however_often_it_was_refused_while_no_worker_listened(refusals: int) -> None:
    # Given a port at which a worker listens, and whose workers then end again and again
    port = free_port()
    ports = SharedPorts([("listen.port", "127.0.0.1", port)])
    worker = inherited(os.dup(ports.numbers[0]))
    worker.listen()
    for _ in range(refusals):
        ports.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    # When a worker listens again
    worker.listen()
    # Then a connection carries bytes both ways: Linux gave those of a socket that was shut down twice their end at once
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        accepted, _ = worker.accept()
        accepted.sendall(b"answer")
        assert client.recv(6) == b"answer"
        client.sendall(b"more")
        assert accepted.recv(4) == b"more"
        accepted.close()
    worker.close()
    ports.close()
