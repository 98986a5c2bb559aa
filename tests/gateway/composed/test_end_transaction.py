"""Ends of transactions that began in a cluster which their user, or a topic of theirs, has left."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.ask import Coordinator
from gateway.composed.end_transaction import EVIDENCE, end_transaction
from gateway.session.transaction_writes import TransactionEvidence, Writes
from ha_core.model import Extent, Fence, LastSequences, Topic, UserBindings
from ha_core.model.extent import append, identity
from ha_core.model.producer import issued_id
from ha_core.plan.absence.given_up import without
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import NODES, Playbook, away, requested, world

WEST = UserBindings(user="alice", cluster="west")
EAST = UserBindings(user="alice", cluster="east")
AWAY, BEGIN_ANEW = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_PRODUCER_ID


def play(committed: bool, *, masked: str = "", node: int = NODES["east", 2], bound: UserBindings = WEST) -> Playbook:
    """Alice ends a transaction that she began in the east."""
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
def test_the_coordinator_that_issued_the_producer_id_answers(error: ErrorCode) -> None:
    playbook = play(True)
    playbook.asked(("east", Coordinator("transaction", "tx"), ApiKey.END_TXN))
    playbook.message("east", producer_id=7, producer_epoch=2, committed=True)
    playbook.answers({"east": {"error_code": int(error)}})
    assert playbook.encodes(ApiKey.END_TXN, 3)["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, ErrorCode.INVALID_TXN_STATE), (False, BEGIN_ANEW)])
def test_aborting_a_transaction_that_never_began_makes_the_producer_begin_anew(
    committed: bool, error: ErrorCode
) -> None:
    playbook = play(committed).answers({"east": {"error_code": int(ErrorCode.INVALID_TXN_STATE)}})
    assert playbook.result["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, AWAY), (False, ErrorCode.NONE)])
def test_while_the_coordinator_is_away_a_commit_stays_open_and_an_abort_succeeds(
    committed: bool, error: ErrorCode
) -> None:
    playbook = play(committed).answers({"east": away("east")})
    assert playbook.result["error_code"] == error


@pytest.mark.parametrize(("committed", "error"), [(True, BEGIN_ANEW), (False, ErrorCode.NONE)])
def test_when_the_cluster_of_the_coordinator_is_masked_the_producer_begins_anew(
    committed: bool, error: ErrorCode
) -> None:
    assert play(committed, masked="east").result["error_code"] == error


def test_no_abort_is_confirmed_without_the_coordinator_if_the_next_transaction_would_commit_it() -> None:
    # Given Alice, who is not bound to another cluster: under the same id she continues in the east when it is back
    assert play(False, masked="east", bound=EAST).result["error_code"] == AWAY
    assert play(False, bound=EAST).answers({"east": away("east")}).result["error_code"] == AWAY


def test_a_producer_id_of_an_unknown_cluster_is_refused() -> None:
    assert play(True, node=99).result["error_code"] == BEGIN_ANEW


# -- after a forced cut -----------------------------------------------------------------------------------------------

FORCED = Topic(
    name="orders", writer="west", partitions={0: (Extent(cluster="west", start=100, base=0, writer_epoch=1),)}
)
"""East died, and its copy in the west was empty."""
ELSEWHERE = Topic(name="payments", writer="east", partitions={0: identity("east")})
DIES = Topic(name="orders", writer="east", partitions={0: identity("east")})
OWN, EPOCH = 7, 2


def read(*producers: tuple[int, int, int]) -> LastSequences:
    """Records of the east's producers that are read after the cut: (id, epoch, last sequence)."""
    return LastSequences(
        name="orders", left_by_force={"east": {0: {producer: (epoch, last) for producer, epoch, last in producers}}}
    )


def wrote(last: int, topic: bytes = b"orders", **more: bool) -> Writes:
    return Writes(EPOCH, {(topic, 0): last}, **more)


def forced(
    writes: Writes | None = None,
    *,
    left: LastSequences | None = None,
    topics: tuple[Topic, ...] = (FORCED, ELSEWHERE),
    bound: UserBindings = WEST,
    masked: str = "",
    offered: dict[int, tuple[int, int]] | None = None,
    committed: bool = True,
) -> Playbook:
    """Alice asks for the end of a transaction begun in the east, which `orders` has left by force."""
    fields = {"transactional_id": "tx", "producer_id": issued_id(OWN, NODES["east", 2]), "producer_epoch": EPOCH}
    request = requested(ApiKey.END_TXN, 3, **fields, committed=committed) | {
        EVIDENCE: TransactionEvidence(True, writes)
    }
    context = world(bindings=(bound,), topics=topics, port=("west", 1), masked=masked, offered=offered)
    view = replace(context.view, sequences={"orders": read() if left is None else left})
    return Playbook(end_transaction(replace(context, view=view), 3, request))


def state(phase: str, *topics: str, own: int = OWN, epoch: int = EPOCH, error: int = 0) -> dict[str, Any]:
    named = [{"topic": topic, "partitions": [0]} for topic in topics]
    one = {"error_code": error, "transactional_id": "tx", "transaction_state": phase, "topics": named}
    return {"transaction_states": [one | {"producer_id": own, "producer_epoch": epoch}]}


def ended(playbook: Playbook, code: int = 0, **expected: Any) -> int:
    """The coordinator is asked for the end with these fields, and answers; returns the client's error code."""
    playbook.asked(("east", Coordinator("transaction", "tx"), ApiKey.END_TXN)).message("east", **expected)
    result = playbook.answers({"east": {"error_code": code}}).encodes(ApiKey.END_TXN, 3)
    return int(result["error_code"])


def described(playbook: Playbook, said: dict[str, Any]) -> Playbook:
    playbook.asked(("east", Coordinator("transaction", "tx"), ApiKey.DESCRIBE_TRANSACTIONS))
    return playbook.answers({"east": said})


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("bound", [WEST, EAST])
def test_a_commit_of_records_in_no_extent_is_aborted_where_it_began(code: int, bound: UserBindings) -> None:
    playbook = described(forced(bound=bound), state("Ongoing", "payments", "orders"))
    assert ended(playbook, code, committed=False, producer_id=OWN, producer_epoch=EPOCH) == BEGIN_ANEW


def test_a_commit_that_another_gateway_forwarded_first_is_judged_when_the_client_retries() -> None:
    playbook = described(forced(wrote(4)), state("Ongoing", "orders"))
    assert ended(playbook, ErrorCode.INVALID_TXN_STATE, committed=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    again = described(forced(wrote(4)), state("CompleteCommit"))
    assert again.result["error_code"] == BEGIN_ANEW


def test_a_coordinator_that_dies_between_question_and_abort_ends_nothing() -> None:
    playbook = described(forced(wrote(4)), state("Ongoing", "orders")).answers({"east": away("east")})
    assert playbook.result["error_code"] == BEGIN_ANEW
    playbook = described(forced(), state("Ongoing", "orders")).answers({"east": away("east")})
    assert playbook.result["error_code"] == AWAY


SKIPPED = Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0, ignored=True)
GIVEN_UP = without(FORCED.changed(partitions={0: append(identity("east"), "west", 100, 0)}), "east")
NOT_FORCED = LastSequences(name="orders")
COMMITS: dict[str, tuple[dict[str, Any], tuple[str, ...], bool]] = {
    "to no topic": ({}, (), True),
    "to a topic that did not leave": ({}, ("payments",), True),
    "to a topic without a map": ({}, ("never-moved",), True),
    "to a topic that came back by a planned move": ({"topics": (DIES,)}, ("orders",), True),
    "of records that readers skip": (
        {"topics": (FORCED.changed(partitions={0: (SKIPPED, *FORCED.partitions[0])}),), "left": NOT_FORCED},
        ("orders",),
        False,
    ),
    "of records that were given up": ({"topics": (GIVEN_UP,), "left": NOT_FORCED}, ("orders",), False),
}


@pytest.mark.parametrize(("known", "topics", "committed"), COMMITS.values(), ids=COMMITS)
def test_a_commit_is_forwarded_unless_none_of_its_records_is_read(
    known: dict[str, Any], topics: tuple[str, ...], committed: bool
) -> None:
    playbook = described(forced(**known), state("Ongoing", *topics))
    assert ended(playbook, committed=committed) == (ErrorCode.NONE if committed else BEGIN_ANEW)


def test_a_commit_under_the_fence_of_a_forced_move_is_neither_forwarded_nor_aborted() -> None:
    fenced = DIES.changed(fence=Fence(operation="op", taken_for_dead="east"))
    nothing = LastSequences(name="orders")
    playbook = described(forced(topics=(fenced,), left=nothing), state("Ongoing", "orders"))
    assert playbook.result["error_code"] == ErrorCode.CONCURRENT_TRANSACTIONS
    planned = DIES.changed(fence=Fence(operation="op"))
    playbook = described(forced(topics=(planned,), left=nothing), state("Ongoing", "orders"))
    assert ended(playbook, committed=True) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("writes", "left", "told"),
    [
        (None, read(), ErrorCode.NONE),
        (wrote(4), read(), BEGIN_ANEW),
        (wrote(4), read((OWN, EPOCH, 3)), BEGIN_ANEW),
        (wrote(4), read((OWN, EPOCH - 1, 9)), BEGIN_ANEW),
        (wrote(4), read((OWN + 1, EPOCH, 9)), BEGIN_ANEW),
        (wrote(4), read((OWN, EPOCH, 4)), ErrorCode.NONE),
        (wrote(4), read((OWN, EPOCH + 1, 0)), ErrorCode.NONE),
        (wrote(4, b"payments"), read(), ErrorCode.NONE),
        (Writes(EPOCH, {(b"orders", 0): 4, (b"payments", 0): 1}), read(), ErrorCode.NONE),
    ],
)
def test_an_earlier_commit_is_confirmed_unless_none_of_its_records_is_read(
    writes: Writes | None, left: LastSequences, told: int
) -> None:
    playbook = described(forced(writes, left=left), state("CompleteCommit"))
    assert (playbook.result["error_code"] if told else ended(playbook, committed=True)) == told


@pytest.mark.parametrize("phase", ["PrepareAbort", "CompleteAbort"])
def test_a_commit_that_another_gateway_has_aborted_makes_the_producer_begin_anew(phase: str) -> None:
    assert described(forced(), state(phase, "orders")).result["error_code"] == BEGIN_ANEW


def test_a_producer_whose_transaction_timed_out_in_the_dead_cluster_begins_anew_where_its_user_is() -> None:
    timed_out = state("CompleteAbort", epoch=EPOCH + 1)
    assert described(forced(), timed_out).result["error_code"] == BEGIN_ANEW
    # But a producer whose user has not left is fenced, as by any coordinator
    fenced = ErrorCode.PRODUCER_FENCED
    assert ended(described(forced(bound=EAST), timed_out), fenced, committed=True) == fenced


@pytest.mark.parametrize("error", [14, 15, 16])
def test_a_coordinator_that_moves_is_looked_up_again(error: int) -> None:
    assert described(forced(), state("", error=error)).result["error_code"] == error


def test_a_transaction_that_the_coordinator_does_not_know_gets_its_answer() -> None:
    playbook = described(forced(), state("", error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    assert ended(playbook, ErrorCode.INVALID_PRODUCER_ID_MAPPING, committed=True) == BEGIN_ANEW


@pytest.mark.parametrize(
    ("writes", "told"),
    [(None, BEGIN_ANEW), (wrote(4), BEGIN_ANEW), (wrote(4, b"payments"), ErrorCode.NONE)],
)
def test_a_coordinator_that_cannot_describe_transactions_is_judged_by_the_written_records(
    writes: Writes | None, told: int
) -> None:
    playbook = forced(writes, offered={ApiKey.END_TXN: (0, 3)})
    assert ended(playbook, committed=told == ErrorCode.NONE) == told


def test_an_abort_after_a_forced_cut_needs_no_question() -> None:
    assert ended(forced(committed=False), committed=False) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("writes", "left", "told"),
    [
        # The copy has it, and a copy has only committed records.
        (wrote(4, commit_asked=True), read((OWN, EPOCH, 4)), ErrorCode.NONE),
        # The copy lacks it: no reader gets it, whatever its outcome.
        (wrote(4, commit_asked=True), read((OWN, EPOCH, 3)), BEGIN_ANEW),
        # Readers wait for the records of another topic, and this gateway has forwarded no commit.
        (wrote(4, b"payments"), read(), BEGIN_ANEW),
        # It has forwarded one: only the coordinator knows the outcome.
        (wrote(4, b"payments", commit_asked=True), read(), AWAY),
        # The coordinator has reported the outcome.
        (wrote(4, b"payments", commit_asked=True, ended=True, committed=True), read(), ErrorCode.NONE),
        # Another gateway may know.
        (None, read(), AWAY),
    ],
)
def test_while_the_dead_cluster_is_unreachable_a_commit_is_answered_from_known_records(
    writes: Writes | None, left: LastSequences, told: int
) -> None:
    playbook = described_by_nobody(forced(writes, left=left))
    assert playbook.result["error_code"] == told
    # Masked by an operator's decision, the commit is never left open.
    masked = forced(writes, left=left, masked="east").result["error_code"]
    assert masked == (BEGIN_ANEW if told == AWAY else told)


def described_by_nobody(playbook: Playbook) -> Playbook:
    playbook.asked(("east", Coordinator("transaction", "tx"), ApiKey.DESCRIBE_TRANSACTIONS))
    return playbook.answers({"east": away("east")})
