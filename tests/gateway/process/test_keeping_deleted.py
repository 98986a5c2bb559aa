"""Deletions of records are stored in ZooKeeper before clients are answered."""

import asyncio

from gateway.composed.handlers import DeletedBelow, KeepDeleted
from gateway.process.deleted_records import AT_ONCE, DeletedRecordsWriter
from ha_core.model import Fence, Topic
from ha_core.model.extent import identity
from ha_core.store.commits import StateChange, key_of
from ha_core.wire.codes import ErrorCode
from stack.memory_store import MemoryStore

NAMES = tuple(f"topic-{number}" for number in range(3 * AT_ONCE))
MAPPED = {name: Topic(name=name, writer="east", partitions={0: identity("east")}) for name in NAMES}


def test_each_topic_is_acknowledged_if_zookeeper_has_its_deletion() -> None:
    # Given topics, the last of which a move has fenced
    store, (*free, fenced) = MemoryStore(), NAMES
    stored = [one.changed(fence=Fence(operation="op")) if one.name == fenced else one for one in MAPPED.values()]
    store.commit(StateChange(change_id="c", puts=tuple(stored), expected={key_of(one): None for one in stored}))
    # When a gateway that does not know of the fence writes down deletions in all of them
    wanted = KeepDeleted(tuple(DeletedBelow(one, {0: 7}) for one in MAPPED.values()))
    answers = asyncio.run(DeletedRecordsWriter(store.client()).carry_out(wanted))
    # Then the fenced topic gets a retriable error, and the others are written
    assert [answer["error_code"] for answer in answers] == [*(0 for _ in free), ErrorCode.LEADER_NOT_AVAILABLE]
    assert store.deleted_records(NAMES) == {(name, 0): 7 for name in free}


def test_clients_get_a_retriable_error_while_zookeeper_is_away() -> None:
    store = MemoryStore()
    store.suspend()
    wanted = KeepDeleted((DeletedBelow(MAPPED[NAMES[0]], {0: 7}),))
    (answer,) = asyncio.run(DeletedRecordsWriter(store).carry_out(wanted))
    assert answer["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE
