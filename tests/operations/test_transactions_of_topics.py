"""Open transactions of a topic, their producers, and hanging ones."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ha_core.kafka.errors import UnsupportedByClusterError
from ha_core.operations.clusters.collect_facts import HANGING_S, MAX_ASKED, MAX_NAMED, Transactions
from ha_core.plan.facts.clusters import ProducerFacts

NOW_MS = 10_000_000
LONG_AGO_MS = NOW_MS - int(HANGING_S * 1000) - 1


class Coordinators:
    """The answer of all coordinators; None: they are older than Kafka 3.0."""

    def __init__(self, told: Mapping[int, tuple[str, str]] | None) -> None:
        self.told = told
        self.asked: list[int] = []

    def transactions(self, producer_ids: Collection[int], timeout_s: float | None = None) -> Any:
        self.asked = list(producer_ids)
        if self.told is None:
            raise UnsupportedByClusterError("east", "LIST_TRANSACTIONS is not offered.")
        return self.told


def producer(number: int, start: int = -1, last_ms: int = NOW_MS - 1000, coordinator: int = 0) -> ProducerFacts:
    return ProducerFacts(number, 0, 5, last_ms, coordinator, start)


def read(told: Mapping[int, tuple[str, str]] | None, *states: ProducerFacts) -> Transactions:
    return Transactions.read(Coordinators(told), {("orders", 0): states}, 1.0)  # type: ignore[arg-type]


def test_open_transactions_are_reported_with_their_transactional_ids() -> None:
    transactions = read({1: ("pay-1", "Ongoing"), 2: ("pay-2", "CompleteCommit")}, producer(1, 40), producer(2))

    assert transactions.topics == {"orders"}
    assert transactions.ids("orders") == ("pay-1", "pay-2")
    (transaction,) = transactions.open("orders", NOW_MS)
    assert (
        transaction.partition,
        transaction.offset,
        transaction.age_s,
        transaction.transactional_id,
        transaction.hanging,
    ) == (0, 40, 1.0, "pay-1", False)


@pytest.mark.parametrize(
    ("told", "last_ms", "hangs"),
    [
        ({}, LONG_AGO_MS, True),
        ({1: ("pay-1", "CompleteAbort")}, LONG_AGO_MS, True),
        ({1: ("pay-1", "Ongoing")}, LONG_AGO_MS, False),
        ({1: ("pay-1", "PrepareCommit")}, LONG_AGO_MS, False),
        # It may have ended between the two questions
        ({1: ("pay-1", "CompleteCommit")}, NOW_MS - 1000, False),
        # The coordinators do not answer
        (None, LONG_AGO_MS, False),
    ],
)
def test_a_transaction_hangs_when_no_coordinator_knows_it_and_it_is_too_old_to_be_on_its_way(
    told: Mapping[int, tuple[str, str]] | None, last_ms: int, hangs: bool
) -> None:
    assert [transaction.hanging for transaction in read(told, producer(1, 40, last_ms)).open("orders", NOW_MS)] == [
        hangs
    ]


def test_producers_without_transactions_and_copiers_have_no_transactions() -> None:
    plain, copier = producer(1, coordinator=-1), producer(2)

    transactions = read({2: ("switchyard-copy-link-1-orders-0", "CompleteAbort")}, plain, copier)

    assert (transactions.topics, transactions.ids("orders")) == (frozenset(), ())


def test_open_transactions_are_asked_for_first_and_the_report_is_bounded() -> None:
    coordinators = Coordinators({})
    many = [producer(number) for number in range(500)]
    many += [producer(number, 7, LONG_AGO_MS) for number in range(500, 500 + MAX_ASKED + 1)]

    transactions = Transactions.read(coordinators, {("orders", 0): tuple(many)}, 1.0)  # type: ignore[arg-type]

    assert coordinators.asked[0] == 500
    assert len(coordinators.asked) == MAX_ASKED
    assert len(transactions.open("orders", NOW_MS)) == MAX_NAMED
    # A transaction that no coordinator was asked about is not reported as hanging
    assert (
        sum(transaction.hanging for transaction in replace(transactions, asked=frozenset({500})).open("orders", NOW_MS))
        == 1
    )
