"""Transactions that began in a cluster which their user has left."""

from __future__ import annotations

import pytest

from gateway.composed.ask import Coordinator
from gateway.composed.end_transaction import end_transaction
from ha_core.model import UserBindings
from ha_core.model.producer import issued_id
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import NODES, Playbook, away, requested, world

WEST = UserBindings(user="alice", cluster="west")
EAST = UserBindings(user="alice", cluster="east")
AWAY, BEGIN_ANEW = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_PRODUCER_ID


def play(committed: bool, *, masked: str = "", node: int = NODES["east", 2], bound: UserBindings = WEST) -> Playbook:
    """Alice ends what she began in the east."""
    request = requested(
        ApiKey.END_TXN,
        3,
        transactional_id="tx",
        producer_id=issued_id(7, node),
        producer_epoch=2,
        committed=committed,
    )
    return Playbook(end_transaction(world(bindings=(bound,), masked=masked, port=("west", 1)), 3, request))


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED])
def test_the_coordinator_that_issued_the_producer_id_is_asked_and_its_answer_counts(error: ErrorCode) -> None:
    found = play(True)
    found.asked(("east", Coordinator("transaction", "tx"), ApiKey.END_TXN))
    found.message("east", producer_id=7, producer_epoch=2, committed=True)
    found.answers({"east": {"error_code": int(error)}})
    assert found.encodes(ApiKey.END_TXN, 3)["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, ErrorCode.INVALID_TXN_STATE), (False, BEGIN_ANEW)])
def test_aborting_a_transaction_that_never_began_makes_the_producer_begin_anew(
    committed: bool, error: ErrorCode
) -> None:
    found = play(committed).answers({"east": {"error_code": int(ErrorCode.INVALID_TXN_STATE)}})
    assert found.result["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, AWAY), (False, ErrorCode.NONE)])
def test_while_the_coordinator_is_away_a_commit_stays_open_and_an_abort_succeeds(
    committed: bool, error: ErrorCode
) -> None:
    found = play(committed).answers({"east": away("east")})
    assert found.result["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, BEGIN_ANEW), (False, ErrorCode.NONE)])
def test_when_the_cluster_of_the_coordinator_is_masked_the_producer_begins_anew(
    committed: bool, error: ErrorCode
) -> None:
    assert play(committed, masked="east").result["error_code"] == error


def test_while_the_coordinator_is_away_no_abort_is_granted_to_who_would_commit_it_with_the_next_transaction() -> None:
    # Given Alice, who is not bound to another cluster: under the same id she goes on in the east when it is back
    assert play(False, masked="east", bound=EAST).result["error_code"] == AWAY
    assert play(False, bound=EAST).answers({"east": away("east")}).result["error_code"] == AWAY


def test_a_producer_id_of_an_unknown_cluster_is_refused() -> None:
    assert play(True, node=99).result["error_code"] == BEGIN_ANEW
