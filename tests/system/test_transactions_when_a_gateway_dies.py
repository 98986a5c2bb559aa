"""Transactional producers go on at another gateway when theirs is killed for good, and can be moved."""

import pytest

from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.events import LibraryRemark, TransactionEnded
from tests.kit.progress import await_more
from tests.kit.running import Run
from tests.kit.stacks import own_stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/session/transactions.py", "gateway/composed/coordinator_release.py"),
]
stack = own_stack()
PRODUCERS = 3
STILL_S = 25.0
"""Far longer than producers take, and shorter than the coordinator's timeout of their transactions (60 s)."""
OPTIONS = {"rate": 100, "transaction_records": 10, "transaction_open": True, "abort_every": 5, "linger_ms": 2}


def go_on(producers: list[ClientProcess]) -> None:
    """Wait until each has three more transactions acknowledged."""
    await_more(30, *producers, timeout_s=STILL_S)


def test_transactional_producers_go_on_and_are_moved_when_their_gateway_is_killed_and_stays_away(
    stack: Stack, run: Run, name: str
) -> None:
    # Given producers that nearly always have an open transaction, and a read_committed reader
    reader = run.start("confluent-consumer", "r", name, group=name, isolation="read_committed")
    producers = [run.start("confluent-transactions", f"w{n}", name, **OPTIONS) for n in range(PRODUCERS)]
    go_on(producers)
    for gateway, origin, target in (("gateway/1", "east", "west"), ("gateway/2", "west", "east")):
        # When one gateway is killed, and then the other one: one of them is theirs
        with run.fault(f"{gateway} is killed"):
            stack.kill(gateway)
            # Then they go on while it is away
            go_on(producers)
        # And when they are moved, no transaction from that gateway delays the move
        assert run.switch(origin, target)["result"] == "succeeded"
        go_on(producers)
        stack.restart(gateway)
        go_on(producers)
    run.finish(producers, [reader])
    # And committed records were delivered, aborted ones were not, and no producer had to be replaced
    run.assert_sound(name, complete=[name])
    events = [event for producer in producers for event in producer.history().clients[producer.name]]
    assert not [
        event for event in events if isinstance(event, LibraryRemark) and (event.fatal or "FATAL" in event.text)
    ]
    assert not [event for event in events if isinstance(event, TransactionEnded) and event.outcome == "unknown"]
