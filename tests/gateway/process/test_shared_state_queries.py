"""Look-ups for sessions run once at a time, and all sessions learn their results."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any, cast

import pytest

from gateway.composed.ask import Ask, ClusterUnavailableError, Coordinator, Reply
from gateway.process.shared_state_queries import MAX_AT_ONCE, SharedStateQueries
from gateway.session.commands import CheckTransactionEnded, FindDuplicateOffset, FindProducers
from gateway.session.open_transactions import Holders, OpenTransactions
from gateway.session.produce.duplicate_offsets import DuplicateOffsets, EarlierBatch, Missing
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.upstream.clusters import Clusters
from ha_core.model import Crossing, Extent, Topic, View
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.wire.codes import ApiKey
from tests.gateway.session.batch import batch
from tests.gateway.session.talk import topology

STAYS = (
    Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
    Extent(cluster="west", start=100, end=200, base=0, writer_epoch=1),
    Extent(cluster="east", start=200, base=150, writer_epoch=2),
)
CROSSING = Topic(name="orders", writer="west", partitions={0: STAYS}, crossing=Crossing(operation="m-1", state="open"))
"""Its log in the west has not reached the cut at 200."""


class Brokers:
    """Connections to clusters of which the east holds a batch at 30."""

    def __init__(self) -> None:
        self.topology = topology(east={"orders": {0: 1}}, west={"orders": {0: 1}})
        self.asked: list[str] = []
        self.away = False

    async def ask(self, *question: Any) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async def ask_all(self, asks: Sequence[Ask]) -> list[Reply]:
        await asyncio.sleep(0)
        (ask,) = asks
        self.asked.append(ask.cluster)
        if self.away:
            return [ClusterUnavailableError(ask.cluster, "away")]
        found: dict[str, Any] = {"partition_index": 0, "error_code": 0, "offset": 30, "timestamp": 1}
        if ask.api_key == ApiKey.LIST_OFFSETS:
            return [{"topics": [{"name": "orders", "partitions": [found]}]}]
        found["records"] = batch(30, producer_id=upstream_id(FIRST_CLIENT_ID, 0), epoch=0, sequence=7)
        return [{"error_code": 0, "responses": [{"topic": "orders", "partitions": [found]}]}]


def wanted(number: int = 7) -> EarlierBatch:
    return EarlierBatch(b"orders", 0, FIRST_CLIENT_ID, 0, number, 1, 1)


@pytest.mark.parametrize("away", [False, True])
async def test_a_duplicate_lookup_searches_the_earlier_writer_epochs_and_all_sessions_learn_the_result(
    away: bool,
) -> None:
    brokers, duplicate_offsets = Brokers(), DuplicateOffsets()
    brokers.away = away
    view = View(1, topics={"orders": CROSSING})
    queries = SharedStateQueries(cast(Clusters, brokers), WriterEpochs(), duplicate_offsets, Holders(), lambda: view)
    queries.ask(FindDuplicateOffset(wanted()))
    queries.ask(FindDuplicateOffset(wanted()))
    await asyncio.sleep(0.05)
    assert brokers.asked == (["east"] if away else ["east", "east"])
    assert duplicate_offsets.offset(wanted(), 0.0) == (Missing.NOT_YET if away else 30)


async def test_a_duplicate_lookup_in_a_damaged_map_asks_no_broker_and_raises_nothing() -> None:
    brokers, raised = Brokers(), list[Any]()
    damaged = Topic(name="orders", writer="west", partitions={0: STAYS[:2]})
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context))
    view = View(1, topics={"orders": damaged})
    queries = SharedStateQueries(cast(Clusters, brokers), WriterEpochs(), DuplicateOffsets(), Holders(), lambda: view)
    queries.ask(FindDuplicateOffset(wanted()))
    await asyncio.sleep(0.05)
    del queries
    gc.collect()
    assert (brokers.asked, raised) == ([], [])


async def test_concurrent_duplicate_lookups_are_bounded() -> None:
    brokers, duplicate_offsets = Brokers(), DuplicateOffsets()
    view = View(1, topics={"orders": CROSSING})
    queries = SharedStateQueries(cast(Clusters, brokers), WriterEpochs(), duplicate_offsets, Holders(), lambda: view)
    for number in range(5 * MAX_AT_ONCE):
        queries.ask(FindDuplicateOffset(wanted(number)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(brokers.asked) == MAX_AT_ONCE
    await asyncio.sleep(0.05)


async def test_a_duplicate_lookup_waits_for_no_other_queries() -> None:
    # Given a cluster that does not say which producers it knows in many partitions
    brokers, duplicate_offsets = Brokers(), DuplicateOffsets()
    brokers.topology = topology(east={"orders": {0: 1}, "other": dict.fromkeys(range(MAX_AT_ONCE), 1)})
    view = View(1, topics={"orders": CROSSING})
    queries = SharedStateQueries(cast(Clusters, brokers), WriterEpochs(), duplicate_offsets, Holders(), lambda: view)
    for partition in range(MAX_AT_ONCE):
        queries.ask(FindProducers("east", "other", partition))
    # When a batch comes again that an earlier writer epoch holds, then it is looked up at once
    queries.ask(FindDuplicateOffset(wanted()))
    await asyncio.sleep(0.05)
    assert duplicate_offsets.offset(wanted(), 0.0) == 30


async def test_open_transactions_are_checked_now_and_then_and_a_few_at_once() -> None:
    # Given many transactions that seem open, and a coordinator that knows of none
    asked: list[str] = []

    class Coordinators:
        topology = topology()

        async def ask(self, cluster: str, target: Coordinator, api_key: int, message: dict[str, Any]) -> Reply:
            assert (cluster, api_key, message) == (
                "east",
                ApiKey.DESCRIBE_TRANSACTIONS,
                {"transactional_ids": [target.key]},
            )
            asked.append(target.key)
            await asyncio.sleep(0)
            return {"transaction_states": [{"error_code": 0, "transactional_id": target.key, "topics": []}]}

    holders = Holders()
    transactions = OpenTransactions(holders, "east")
    for number in range(3 * MAX_AT_ONCE):
        transactions.begun(f"tx-{number}", [b"orders"], 0.0)
    queries = SharedStateQueries(cast(Clusters, Coordinators()), WriterEpochs(), DuplicateOffsets(), holders, View)
    # When each is checked again and again
    for _ in range(20):
        for number in range(3 * MAX_AT_ONCE):
            name = f"tx-{number}"
            held = transactions._open.get(name)
            queries.ask(CheckTransactionEnded("east", None, name, held.topics if held else frozenset({b"orders"})))
        assert all(len(kind.under_way) <= MAX_AT_ONCE for kind in queries._kinds.values())
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
    # Then each was asked about once within that time, and is known to have ended
    assert sorted(asked) == sorted(f"tx-{number}" for number in range(3 * MAX_AT_ONCE))
    assert not transactions.write_to(frozenset({b"orders"}))
