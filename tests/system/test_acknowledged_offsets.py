"""Acknowledgements of real producers: the offset at which each record is read, even after a lost answer."""

import pytest

from tests.kit.progress import acked, await_more
from tests.kit.running import Run
from tests.kit.stacks import own_stack
from tests.system.conftest import bound_run
from tests.system.watching import assert_no_client_has_failed, client_id_at

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/produce", "gateway/composed/duplicate_lookup.py")]
PARTITIONS = 3
PRESSING = {
    "idempotence": "on",
    "rate": 2000,
    "linger_ms": 0,
    "settings": ("batch.num.messages=7", "queue.buffering.max.messages=300", "reconnect.backoff.max.ms=500"),
}
"""Small batches, five in flight all the time: some are appended but not answered when the gateway dies."""

stack = own_stack()


run = bound_run(PARTITIONS)


@pytest.mark.timeout(400)
def test_a_record_sent_again_after_a_switch_is_acknowledged_at_the_offset_where_it_is_read(run: Run, name: str) -> None:
    producers = [
        run.start("confluent-producer", f"w{n}", name, client_id=client_id_at(run.stack, name, 1), **PRESSING)
        for n in range(2)
    ]
    for origin, target in (("east", "west"), ("west", "east")):
        # Given producers with batches in flight through a gateway
        await_more(200, *producers)
        # When it dies, and their topic has moved before they find another gateway
        with run.fault("gateway/1 killed"):
            run.stack.kill("gateway/1")
            run.switch(origin, target)
            await_more(200, *producers)
        run.stack.restart("gateway/1")
    for producer in producers:
        producer.stop()
    # Then no acknowledged offset belongs to another record, and nearly all are known
    run.start("confluent-consumer", "reader", name, seek="beginning", to_end=True).wait()
    run.assert_sound(name, complete=["reader"], redelivery="never")
    assert_no_client_has_failed(run.clients)
    acks = [ack for producer in producers for ack in acked(producer)]
    silent = [event for event in acks if event.offset < 0]
    print(f"{len(acks)} records acknowledged, {len(silent)} of them without an offset")
    assert len(silent) <= len(acks) / 1000
