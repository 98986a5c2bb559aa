import pytest

from ha_core.model.producer import FIRST_CLIENT_ID, WRITER_EPOCH_STRIDE
from ha_core.store.errors import StoreError
from stack.memory_store import MemoryStore

from .sessions import Session
from .waiting import at_once


def test_a_key_keeps_its_node_id_and_no_other_key_gets_it(session: Session, other: Session) -> None:
    first = session.store.allocate_node("east:1")
    second = other.store.allocate_node("gateway:gw/1")

    assert (first, second) == (1, 2)
    assert other.store.allocate_node("east:1") == first
    assert session.store.nodes() == {"east:1": 1, "gateway:gw/1": 2}


def test_racing_sessions_allocate_equal_node_ids(session: Session, other: Session) -> None:
    # Given two sessions
    results: list[dict[str, int]] = []

    def allocate(each: Session) -> None:
        results.append({key: each.store.allocate_node(key) for key in (f"east:{n}" for n in range(20))})

    # When both allocate ids for the same keys at once
    at_once(allocate, (session,), (other,))
    # Then they have the same ones
    assert results[0] == results[1] == session.store.nodes()
    assert sorted(results[0].values()) == list(range(1, 21))


def test_an_installation_keeps_a_cluster_id_of_its_own(session: Session, other: Session) -> None:
    found = session.store.cluster_id()

    assert len(found) == 22
    assert other.store.cluster_id() == found
    assert MemoryStore().cluster_id() != found


@pytest.mark.parametrize("made", [True, False])
def test_a_node_id_is_allocated_once_when_the_reply_is_lost(session: Session, made: bool) -> None:
    session.lose_next_reply(made)

    assert session.store.allocate_node("east:1") == 1
    assert session.losses_left() == 0
    assert session.store.allocate_node("east:2") == 2


def test_blocks_of_producer_ids_never_overlap(session: Session, other: Session) -> None:
    first = session.store.allocate_producer_ids(1000)
    second = other.store.allocate_producer_ids(10)
    third = session.store.allocate_producer_ids()

    assert (first, second, third) == (FIRST_CLIENT_ID, FIRST_CLIENT_ID + 1000, FIRST_CLIENT_ID + 1010)


@pytest.mark.parametrize("made", [True, False])
def test_a_block_of_producer_ids_is_allocated_once_when_the_reply_is_lost(
    session: Session, other: Session, made: bool
) -> None:
    session.lose_next_reply(made)

    first = session.store.allocate_producer_ids(1000)

    assert session.losses_left() == 0
    assert other.store.allocate_producer_ids(1000) == first + 1000


@pytest.mark.parametrize("number", [FIRST_CLIENT_ID - 1, WRITER_EPOCH_STRIDE - 5])
def test_producer_ids_never_leave_their_range(session: Session, number: int) -> None:
    session.plant("/producer_ids", b'{"next":%d}' % number)

    with pytest.raises(StoreError, match="leaves the range"):
        session.store.allocate_producer_ids(10)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"next":"x"}'])
def test_an_unreadable_counter_allocates_nothing(session: Session, data: bytes) -> None:
    session.plant("/nodes", data)

    with pytest.raises(StoreError, match="/nodes does not hold the next free number"):
        session.store.allocate_node("east:1")


def test_a_block_of_producer_ids_has_at_least_one(session: Session) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        session.store.allocate_producer_ids(0)
