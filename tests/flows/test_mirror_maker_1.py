"""Mapping the options of MirrorMaker 1 to one flow."""

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.mirror_maker_1 import mapped_options
from ha_core.model.isolation import Isolation

CONSUMER = {"bootstrap.servers": "a:9092", "group.id": "mirror", "max.poll.records": "100", "client.id": "mirror"}
PRODUCER = {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "acks": "all"}


def test_both_files_and_the_pattern_become_one_flow_that_keeps_names() -> None:
    mapped = mapped_options(CONSUMER, PRODUCER, "orders, pay.*", {"num.streams": "4", "abort.on.send.failure": "true"})
    found = configuration(mapped.properties, "a test")
    (flow,) = found.flows
    assert flow.name == "source->target"
    assert flow.policy.format_remote_topic("source", "orders") == "orders"
    assert [name for name in ("orders", "payments", "other") if flow.topics.accepts(name)] == ["orders", "payments"]
    assert (flow.begins_at, flow.isolation) == ("latest", Isolation.UNCOMMITTED)
    assert (flow.heartbeats_s, flow.checkpoints_s, flow.sync_settings_s, flow.sync_acls_s) == (None,) * 4
    source, target = found.clusters
    assert source.client["client.id"] == "mirror"
    assert target.client["security.protocol"] == "SSL"
    assert not [remark for remark in found.remarks if "misspelt" in remark.text]


def test_each_option_that_is_mapped_or_has_no_effect_has_one_remark() -> None:
    mapped = mapped_options(CONSUMER, PRODUCER, "orders", {"num.streams": "4", "new.consumer": ""})
    texts = [remark.text for remark in mapped.remarks]
    for option in ("--include", "--consumer.config", "--producer.config", "--num.streams", "--new.consumer"):
        assert len([text for text in texts if text.startswith((f"{option} ", f"{option}:"))]) == 1, option
    for key in ("group.id", "max.poll.records of the consumer", "acks of the producer", "auto.offset.reset"):
        assert len([text for text in texts if text.startswith(key)]) == 1, key
    assert len(texts) == len(set(texts))


def test_the_consumers_offset_reset_and_isolation_apply() -> None:
    consumer = {**CONSUMER, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    (flow,) = configuration(mapped_options(consumer, PRODUCER, "orders", {}).properties, "a test").flows
    assert (flow.begins_at, flow.isolation) == ("earliest", Isolation.COMMITTED)


@pytest.mark.parametrize("option", ["message.handler", "consumer.rebalance.listener"])
def test_an_option_that_names_a_java_class_is_refused_with_the_reason(option: str) -> None:
    with pytest.raises(FlowError, match=f"--{option}: it names a Java class"):
        mapped_options(CONSUMER, PRODUCER, "orders", {option: "com.example.Class"})


def test_a_blank_include_is_refused() -> None:
    with pytest.raises(FlowError, match="--include"):
        mapped_options(CONSUMER, PRODUCER, " ' ' ", {})
