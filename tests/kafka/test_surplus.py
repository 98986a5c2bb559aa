"""The sequence with which each producer crossed an offset, read from the headers of real batches."""

from collections.abc import Callable

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster
from ha_core.plan.facts.clusters import ProducerFacts
from ha_core.plan.move.carry_over import below_cut
from ha_core.wire.sasl import SecurityProfile
from tests.kafka.clients import produce, settings

pytestmark = pytest.mark.stack
Fresh = Callable[[str], str]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_last_sequence_before_a_cut_is_known_wherever_in_a_batch_the_cut_falls(
    either: Admin, clusters: dict[str, Cluster], account: SecurityProfile, fresh: Fresh, codec: str
) -> None:
    # Given two idempotent producers, one after the other, and then one that is not
    name, base = fresh("cut"), settings(clusters[either.cluster.name], account)
    either.create_topics([TopicSpec(name, 1, 1)])
    key = (name, 0)
    produce(base, name, 40, enable_idempotence=True, compression_type=codec, linger_ms="5000")
    first = either.producers([key])[key][0].producer_id
    produce(base, name, 30, enable_idempotence=True, compression_type=codec, linger_ms="5000")
    second = next(state.producer_id for state in either.producers([key])[key] if state.producer_id != first)
    produce(base, name, 5)
    # Then the last sequence of each below any cut is what it had written there
    facts = [ProducerFacts(o.producer_id, o.epoch, o.last_sequence, 0) for o in either.producers([key])[key]]
    # When surplus is read for cuts anywhere in the batches
    for cut in (0, 1, 17, 39, 40, 41, 55, 69, 70, 72, 75):
        surplus = either.surplus({key: (cut, 75)})[key]
        assert surplus.whole
        last = {producer.producer_id: producer.last_sequence for producer in below_cut(facts, surplus) or ()}
        expected = {first: 39 if cut >= 40 else -1, second: 29 if cut >= 70 else -1}
        assert last == {producer: sequence for producer, sequence in expected.items() if sequence >= 0}, cut


def test_surplus_with_deleted_records_is_marked_incomplete(
    east: Admin, clusters: dict[str, Cluster], account: SecurityProfile, fresh: Fresh
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    # Given a log whose first ten records were deleted
    name, base = fresh("cut"), settings(clusters["east"], account)
    east.create_topics([TopicSpec(name, 1, 1)])
    produce(base, name, 20)
    admin = AdminClient(base)
    (deleted,) = admin.delete_records([TopicPartition(name, 0, 10)]).values()
    assert deleted.result(20).low_watermark == 10
    # When surplus is read from a deleted offset, and from the first that is there
    assert not east.surplus({(name, 0): (5, 20)})[name, 0].whole
    assert east.surplus({(name, 0): (10, 20)})[name, 0].whole
