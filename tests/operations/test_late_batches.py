"""A batch of a migration may begin long after its proposal: its topics may have moved since."""

from ha_core.model import MoveRequest, MoveSet, Scope, Topic
from ha_core.model.extent import append, identity
from ha_core.operations.engine.environment import Environment
from ha_core.operations.migration.planning import MigrationBatch
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore


def test_a_batch_whose_topics_are_all_in_the_target_when_it_begins_succeeds_and_leaves_no_lock(
    environment: Environment, store: MemoryStore
) -> None:
    # Given a batch that was proposed, and its topic, which another operation has moved since
    topic = Topic(name="orders", writer="west", partitions={0: append(identity("east"), "west", 10, 0)})
    store.commit(StateChange(change_id="map", puts=(topic,), expected={(Topic, "orders"): None}))
    request = MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="test", cut="predicted")
    batch = MigrationBatch(number=2, request=request, moves=MoveSet(topics=("orders",)))

    # When the batch begins without being judged again, as with --yes
    operation = engine.start(environment, batch, recheck=False)
    report = engine.resume(environment, operation.id)

    # Then nothing is left to do
    assert (report.result, report.error) == ("succeeded", "")
    assert environment.store.locks() == []
