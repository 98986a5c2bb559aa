"""Transactional producers at work while their user is moved there and back."""

import pytest

from stack.clients.process import ClientProcess
from stack.history.events import LibraryRemark, TransactionEnded
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run

pytestmark = pytest.mark.stack
PRODUCERS = ("confluent-transactions", "confluent-transactions", "java-transactions", "java-3-transactions")
"""Enough of them that a transaction is open at every instant; Java before and since 4.0, which treats more errors as
fatal."""


def outcomes(producer: ClientProcess) -> list[str]:
    events = producer.history().clients[producer.name]
    return [event.outcome for event in events if isinstance(event, TransactionEnded)]


def test_transactions_are_committed_once_or_not_at_all_while_their_user_is_switched(run: Run, name: str) -> None:
    # Given producers that commit ten transactions a second each, and abort every fifth, and readers of both levels
    clean = run.start("confluent-consumer", "clean", name, group=f"{name}-clean", isolation="read_committed")
    dirty = run.start("confluent-consumer", "dirty", name, group=f"{name}-dirty")
    options = {"rate": 100, "transaction_records": 10, "transaction_open": True, "abort_every": 5, "linger_ms": 2}
    producers = [run.start(kind, f"w{n}", name, **options) for n, kind in enumerate(PRODUCERS)]
    await_records(30, *producers, timeout_s=60)
    clean.wait_for(30, "delivered")

    # When the user is moved to west, back, and to west again
    for origin, target in (("east", "west"), ("west", "east"), ("east", "west")):
        before = [len(outcomes(producer)) for producer in producers]
        document = run.switch(origin, target)
        assert document["result"] == "succeeded"
        assert "quiesce" in {step["name"] for step in document["steps"]}
        # Then each producer goes on
        for producer, count in zip(producers, before, strict=True):
            await_more(60, producer)
            assert outcomes(producer)[count:].count("committed") >= 3
    run.finish(producers, [clean, dirty])

    # And committed records were delivered exactly once, and aborted ones to no read_committed reader
    run.assert_sound(name, complete=[f"{name}-clean", f"{name}-dirty"], redelivery="never")
    ended = [outcome for producer in producers for outcome in outcomes(producer)]
    assert clean.count("delivered") == 10 * ended.count("committed")
    # And no producer had to be replaced: each gave up at most one transaction per move
    assert "unknown" not in ended
    told = [
        e for producer in producers for e in producer.history().clients[producer.name] if isinstance(e, LibraryRemark)
    ]
    assert not [note for note in told if note.fatal or "FATAL" in note.text]
    assert len(told) <= 3 * len(PRODUCERS)
