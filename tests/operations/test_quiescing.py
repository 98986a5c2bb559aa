"""Open transactions end before the fence, or the move does not begin."""

import time
from dataclasses import dataclass, field
from typing import cast

import pytest

from ha_core.model import Fence, GatewayRecord, MoveRequest, MoveSet, Scope, SwitchOperation, Topic
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.move.fenced_reads import FencedReads
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.plan.facts.clusters import Partition, ProducerFacts
from ha_core.plan.move.closure import lock_keys
from stack.memory_store import MemoryStore

Seen = dict[Partition, tuple[ProducerFacts, ...]]
OPEN: Seen = {("orders", 1): (ProducerFacts(7, 0, 3, 0, 2, 40),)}
QUIET: Seen = {("orders", 1): (ProducerFacts(7, 0, 3, 0, 2, -1),)}


@dataclass
class Leaders:
    """Reads that show what the origin's leaders say, one answer after the other; the last one stays."""

    known: Seen
    open: list[Seen] = field(default_factory=list)
    origin: None = None

    def transactional(self) -> Seen:
        return self.known

    def open_transactions(self) -> Seen:
        return self.open.pop(0) if len(self.open) > 1 else self.open[0] if self.open else {}


@pytest.fixture
def journal(environment: Environment) -> Journal[SwitchOperation]:
    """A move of two topics out of the east, which may wait for 2 s of a clock that only sleeping advances."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    environment.monotonic, environment.sleep = lambda: clock[0], sleep
    request = MoveRequest(
        scope=Scope(topics=("orders", "plain")), origin="east", target="west", reason="test", drain_timeout_s=2
    )
    moves = MoveSet(topics=("orders", "plain"))
    operation = SwitchOperation(
        id="op", state="running", by="me", reason="test", started="now", request=request, moves=moves
    )
    epoch = environment.store.create_operation(operation, lock_keys(request, moves))
    return Journal(environment, operation, epoch)


def run(journal: Journal[SwitchOperation], leaders: Leaders) -> None:
    steps = SwitchSteps(journal)
    steps.fenced_reads = cast(FencedReads, leaders)
    steps.quiesce()


def topics(journal: Journal[SwitchOperation]) -> dict[str, Topic]:
    return dict(journal.environment.store.load().topics)


def test_quiescing_does_nothing_when_no_transactional_producer_is_known(journal: Journal[SwitchOperation]) -> None:
    run(journal, Leaders({}))
    assert not topics(journal)
    assert journal.operation.state == "running"


def test_quiescing_fences_transactions_only_and_waits_for_open_ones(journal: Journal[SwitchOperation]) -> None:
    leaders = Leaders(QUIET, [OPEN, OPEN, {}])
    run(journal, leaders)
    assert topics(journal) == {"orders": Topic(name="orders", transaction_fence=Fence(operation="op"))}
    assert journal.operation.state == "fenced"
    assert leaders.open == [{}]


def test_quiescing_waits_for_a_gateway_that_has_not_drained_its_transactions(
    journal: Journal[SwitchOperation], store: MemoryStore
) -> None:
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1)
    registration = store.client().register_gateway(record)
    with pytest.raises(StepFailedError, match=r"gw-1.*--drain-timeout"):
        run(journal, Leaders(QUIET))
    # And when it says that there is none any more, the move goes on
    revision = journal.environment.store.load().revision
    registration.update(record.model_copy(update={"revision": revision + 1, "drained": ("op",)}))
    until = time.monotonic() + 10  # by another thread, and the move's clock does not wait for that
    while not any(gateway.drained for gateway in journal.environment.store.gateways()):
        assert time.monotonic() < until
    run(journal, Leaders(QUIET))


def test_quiescing_names_a_transaction_that_stays_open_and_the_undo_removes_the_fence(
    journal: Journal[SwitchOperation],
) -> None:
    with pytest.raises(StepFailedError, match=r"orders-1 \(producer 7\).*transaction\.timeout\.ms"):
        run(journal, Leaders(QUIET, [OPEN]))
    SwitchSteps(journal).lift()
    assert not topics(journal)
