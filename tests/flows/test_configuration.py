"""Reading flows from a file: precedence, defaults, and errors."""

import pickle
from collections.abc import Mapping

import pytest

from ha_core.flows.configuration import Configuration, ConfigurationError, configuration
from ha_core.flows.filters import Patterns, parts
from ha_core.flows.policies import DefaultPolicy, IdentityPolicy
from ha_core.flows.properties import parse
from ha_core.model.isolation import Isolation

TWO = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
ON = f"{TWO}A->B.enabled = true\n"


def read(text: str, like_3_9: bool = False) -> Configuration:
    return configuration(parse(text, "mm2.properties"), "mm2.properties", like_3_9=like_3_9)


def remarks(text: str) -> list[str]:
    return [remark.text for remark in read(text).remarks]


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        read(text)
    assert str(error.value).startswith("mm2.properties cannot be used:\n- ")
    return [remark.text for remark in error.value.remarks]


def test_defaults_are_kafkas() -> None:
    (flow,) = read(ON).flows
    assert (flow.source, flow.target, flow.policy) == ("A", "B", DefaultPolicy())
    assert flow.topics.include.texts == (".*",)
    assert flow.groups.exclude.texts == ("console-consumer-.*", "connect-.*", "__.*")
    assert (flow.sync_settings_s, flow.sync_acls_s) == (600, 600)
    assert (flow.refresh_topics_s, flow.refresh_groups_s) == (3, 10)
    assert (flow.checkpoints_s, flow.commit_offsets_s, flow.heartbeats_s) == (60, None, 1)
    assert (flow.syncs_in, flow.max_lag, flow.emits_syncs) == ("source", 100, True)
    assert (flow.replication_factor, flow.heartbeats_replication_factor) == (2, 3)
    assert (flow.begins_at, flow.copies_heartbeats) == ("earliest", True)
    assert flow.settings.defaults_from == "target"
    assert flow.metric_formats == ("legacy",)


def test_each_version_of_kafka_excludes_its_own_default_topics() -> None:
    assert read(ON).flows[0].topics.accepts("my.internal")
    assert not read(ON, like_3_9=True).flows[0].topics.accepts("my.internal")


def test_a_key_of_one_flow_wins_over_the_key_for_all_flows() -> None:
    text = f"{ON}B->A.enabled = true\ntopics = a.*\nA->B.topics = b.*\nemit.checkpoints.interval.seconds = 10\n"
    there, back = read(text).flows
    assert (there.topics.include.texts, back.topics.include.texts) == (("b.*",), ("a.*",))
    assert (there.checkpoints_s, back.checkpoints_s) == (10, 10)


def test_keys_of_a_cluster_win_over_those_for_all_clusters() -> None:
    a, b = read(f"{ON}security.protocol = SSL\nA.security.protocol = PLAINTEXT\n").clusters
    assert (a.client["security.protocol"], b.client["security.protocol"]) == ("PLAINTEXT", "SSL")
    assert (a.bootstrap, b.bootstrap) == (("a:9092",), ("b:9092",))


def test_a_disabled_flow_emits_heartbeats_unless_they_are_disabled() -> None:
    assert [flow.name for flow in read(ON).heartbeats_only] == ["B->A"]
    assert read(f"{ON}emit.heartbeats.enabled = false\n").heartbeats_only == ()
    assert read(f"{ON}B->A.emit.heartbeats.enabled = false\n").heartbeats_only == ()


def test_enabled_without_a_flow_enables_no_flow() -> None:
    found = read(f"{TWO}enabled = true\n")
    assert found.flows == ()
    assert [remark.text for remark in found.remarks] == [
        "no flow is enabled: add a line such as primary->backup.enabled = true"
    ]


@pytest.mark.parametrize(
    ("lines", "interval"),
    [
        ("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 5", 5),
        ("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 0", 1),
        ("sync.group.offsets.enabled = false\nsync.group.offsets.interval.seconds = 5", None),
    ],
)
def test_an_interval_applies_only_if_its_task_is_enabled(lines: str, interval: int | None) -> None:
    assert read(f"{ON}{lines}\n").flows[0].commit_offsets_s == interval


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("A->B.consumer.auto.offset.reset", "latest"),
        ("A.consumer.auto.offset.reset", "latest"),
        ("consumer.auto.offset.reset", "latest"),
        ("A->B.source.consumer.auto.offset.reset", "latest"),
        ("B.consumer.auto.offset.reset", "earliest"),
    ],
)
def test_a_new_partition_begins_where_the_sources_consumer_would_begin(key: str, found: str) -> None:
    assert read(f"{ON}{key} = latest\n").flows[0].begins_at == found


@pytest.mark.parametrize(
    ("lines", "isolation"),
    [
        ("", Isolation.COMMITTED),
        ("A.consumer.isolation.level = read_committed", Isolation.COMMITTED),
        ("A.consumer.isolation.level = read_uncommitted", Isolation.UNCOMMITTED),
        ("consumer.isolation.level = read_uncommitted", Isolation.UNCOMMITTED),
        ("B.consumer.isolation.level = read_uncommitted", Isolation.COMMITTED),
        (
            "consumer.isolation.level = read_uncommitted\nA->B.consumer.isolation.level = read_committed",
            Isolation.COMMITTED,
        ),
    ],
)
def test_a_flow_copies_only_committed_records_unless_its_consumer_reads_uncommitted(
    lines: str, isolation: Isolation
) -> None:
    assert read(f"{ON}{lines}\n").flows[0].isolation is isolation


def test_key_names_that_kafka_removed_still_apply_with_a_remark() -> None:
    found = read(f"{ON}topics.blacklist = secret.*\n")
    assert not found.flows[0].topics.accepts("secret-1")
    assert [remark.text for remark in found.remarks] == [
        "topics.blacklist: Kafka 4.0 removed this name; write topics.exclude"
    ]


@pytest.mark.parametrize("location", ["source", "target"])
def test_the_offset_syncs_topic_is_named_after_the_other_cluster(location: str) -> None:
    (flow,) = read(f"{ON}offset-syncs.topic.location = {location}\n").flows
    assert flow.syncs_topic == f"mm2-offset-syncs.{'B' if location == 'source' else 'A'}.internal"


def test_the_policy_and_the_separator_are_applied() -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    assert read(ON + identity).flows[0].policy == IdentityPolicy(source_alias="A")
    assert read(f"{ON}replication.policy.separator = _\n").flows[0].policy == DefaultPolicy("_")


def test_an_operators_own_policy_is_found_by_its_name() -> None:
    properties = parse(f"{ON}replication.policy.class = flat\n", "x")
    (flow,) = configuration(properties, "x", policies={"flat": DefaultPolicy}).flows
    assert flow.policy == DefaultPolicy()


class Short:
    """A filter of an operator's own: names up to a length."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._most = int(keys["topic.filter.most"])

    def accepts(self, name: str) -> bool:
        return len(name) <= self._most


def test_an_operators_own_filter_takes_the_place_of_the_lists() -> None:
    text = f"{ON}topics = orders\ntopic.filter.class = short\nA->B.topic.filter.most = 3\n"
    found = configuration(parse(text, "x"), "x", filters={"short": Short})
    (flow,) = found.flows
    assert [name for name in ("a", "abc", "abcd", "orders") if flow.topics.accepts(name)] == ["a", "abc"]
    assert found.remarks == ()
    # Spark sends flows to its executors, and a worker restarts flows that differ
    sent = pickle.loads(pickle.dumps(flow))
    assert sent == flow
    assert not sent.topics.accepts("orders")
    other = configuration(parse(text.replace("3", "9"), "x"), "x", filters={"short": Short})
    assert other.flows != found.flows


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("group.filter.class = com.example.Mine", "group.filter.class=com.example.Mine is not known"),
        ("topic.filter.class = short", "the filter short cannot be made: 'topic.filter.most'"),
    ],
)
def test_a_filter_that_cannot_be_used_is_an_error(lines: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        configuration(parse(f"{ON}{lines}\n", "x"), "x", filters={"short": Short})


@pytest.mark.parametrize(
    ("lines", "remark"),
    [
        ("topcis = a", "topcis is not a key of MirrorMaker 2 and has no effect; is it misspelt?"),
        ("A.topics = a", "A.topics has no effect, as in MirrorMaker 2: set it for a flow, A->….topics"),
        ("tasks.max = 8", "tasks.max has no effect: Switchyard spreads partitions over its processes"),
        ("B.producer.acks = 1", "B.producer.acks has no effect: Switchyard's copier is no Java client"),
        (
            "offset.storage.replication.factor = 1",
            "offset.storage.replication.factor has no effect: it belongs to Kafka Connect's workers",
        ),
        ("A->B.topics = ", "topics of A->B is blank and matches nothing"),
    ],
)
def test_keys_without_effect_are_named(lines: str, remark: str) -> None:
    assert remarks(f"{ON}{lines}\n") == [remark]


@pytest.mark.parametrize(
    "line",
    [
        "A.ssl.truststore.location = /x",
        "sasl.mechanism = PLAIN",
        "A.producer.security.protocol = SSL",
        "consumer.isolation.level = read_committed",
        "value.converter = org.apache.kafka.connect.converters.ByteArrayConverter",
    ],
)
def test_keys_that_are_applied_get_no_remark(line: str) -> None:
    assert remarks(f"{ON}{line}\n") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A->B.enabled = true\n", "`clusters` names no cluster"),
        ("clusters = A, B\nA.bootstrap.servers=a:9092\n", "B.bootstrap.servers is not set"),
        (f"{TWO}A->C.enabled = true\n", "A->C.enabled names the cluster 'C', which `clusters` does not list (A, B)"),
        (f"{TWO}A->A.enabled = true\n", "A->A has one cluster on both sides; remove it"),
        (f"{ON}emit.checkpoints.enabled = yes\n", "A->B.emit.checkpoints.enabled=yes is neither true nor false"),
        (f"{ON}offset.lag.max = many\n", "offset.lag.max=many is not a whole number"),
        (f"{ON}replication.factor = -2\n", "replication.factor=-2 is not between -1 and 2147483647"),
        (f"{ON}offset-syncs.topic.location = here\n", "offset-syncs.topic.location=here is not one of source, target"),
        (f"{ON}replication.policy.separator =\n", "replication.policy.separator is blank"),
        (f"{ON}consumer.auto.offset.reset = none\n", "A->B: consumer.auto.offset.reset=none is neither earliest nor"),
        (
            f"{ON}A.consumer.isolation.level = committed\n",
            "A->B: consumer.isolation.level=committed is neither read_committed nor read_uncommitted",
        ),
        (
            f"{ON}sync.group.offsets.enabled=true\nemit.checkpoints.enabled=false\n",
            "A->B: sync.group.offsets.enabled needs emit.checkpoints.enabled",
        ),
        (f"{ON}transforms = mask\n", "transforms=mask cannot be used: it changes records"),
        (f"{ON}errors.tolerance = all\n", "errors.tolerance=all cannot be used: Switchyard skips no record"),
        (f"{ON}replication.policy.class = com.example.P\n", "replication.policy.class=com.example.P is not known"),
    ],
)
def test_each_error_of_a_file_is_reported(text: str, error: str) -> None:
    assert any(found.startswith(error) for found in errors(text))


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    found = errors(f"{ON}offset.lag.max = many\nreplication.factor = few\ntopics = (\n")
    assert len(found) == 3


def test_flows_that_keep_names_must_not_form_a_cycle() -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    (error,) = errors(f"{ON}B->A.enabled = true\n{identity}")
    assert error.startswith("the flows A -> B -> A form a cycle")


def test_flows_with_different_policies_are_told() -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    (told,) = remarks(f"{ON}B->A.enabled = true\nB->A.{identity}")
    assert told.startswith(
        "flows have different replication policies: a topic t of a cluster A would be A.t after A->B, and t after B->A."
    )
    assert remarks(f"{ON}B->A.enabled = true\n") == []


def test_kafkas_own_example_is_accepted() -> None:
    text = """
clusters = us-west, us-east
us-west.bootstrap.servers = host1:9092
us-east.bootstrap.servers = host2:9092
topics = .*
groups = .*
emit.checkpoints.interval.seconds = 10
us-west.offset.storage.topic = mm2-offsets
us-west->us-east.enabled = true
us-west->us-east.emit.heartbeats.enabled = false
"""
    found = read(text)
    assert [(flow.name, flow.checkpoints_s, flow.heartbeats_s) for flow in found.flows] == [
        ("us-west->us-east", 10, None)
    ]
    assert [remark.text for remark in found.remarks] == [
        "us-west.offset.storage.topic has no effect: it belongs to Kafka Connect's workers"
    ]


def test_dots_in_default_patterns_are_literal() -> None:
    (flow,) = read(ON).flows
    assert flow.settings.exclude.matches("leader.replication.throttled.replicas")
    assert not flow.settings.exclude.matches("leaderxreplicationxthrottledxreplicas")
    assert Patterns.of("x", parts("a,b")).matches("b")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        # Before Kafka 3.0 such files let topics keep their names; real ones still have the lines.
        ("source.cluster.alias =\nreplication.policy.separator =\n", "IdentityReplicationPolicy"),
        ("source.cluster.alias = X\n", "source.cluster.alias=X cannot be used for A->B: names have the alias"),
        ("source.cluster.alias =\n", "source.cluster.alias= cannot be used for A->B"),
        ("replication.policy.class = com.example.KeepsNames\n", "where topics are to keep their names, write"),
        ("replication.policy.separator = /\n", "replication.policy.separator=/ is no part of a topic's name"),
        ("replication.factor = 0\n", "replication.factor=0: give 1 or more, or -1 for the default"),
    ],
)
def test_names_that_no_topic_can_have_are_errors_with_the_way_out(lines: str, text: str) -> None:
    assert any(text in error for error in errors(f"{ON}{lines}"))


def test_aliases_that_repeat_those_of_clusters_have_no_effect() -> None:
    told = remarks(f"{ON}A->B.source.cluster.alias = A\nA->B.target.cluster.alias = B\n")
    assert [text.partition(":")[0] for text in told] == [
        f"A->B.{end}.cluster.alias has no effect" for end in ("source", "target")
    ]
    named = f"{ON}source.cluster.alias = A\n".replace("A", "source")
    assert [text.partition(":")[0] for text in remarks(named)] == ["source.cluster.alias has no effect"]


def test_an_alias_may_have_dots_and_begin_like_another() -> None:
    found = read(
        "clusters = us, us.east\nus.bootstrap.servers = a:9092\nus.east.bootstrap.servers = b:9092\n"
        "us->us.east.enabled = true\nus.east->us.enabled = true\nus->us.east.topics = orders\n"
    )
    assert [flow.name for flow in found.flows] == ["us->us.east", "us.east->us"]
    assert found.flows[0].topics.include.texts == ("orders",)
    assert found.remarks == ()


def test_an_alias_that_no_topics_name_can_have_is_an_error() -> None:
    (text,) = errors("clusters = A, a/b\nA.bootstrap.servers = a:9092\na/b.bootstrap.servers = b:9092\n")
    assert text.startswith("`clusters` names 'a/b': an alias is a part of topics' names")


def test_ten_thousand_clusters_are_refused_at_once() -> None:
    (text,) = errors(f"clusters = {', '.join(f'c{number}' for number in range(10_000))}\n")
    assert text == "`clusters` names 10000 clusters; at most 100 are possible"


def test_the_text_of_an_error_is_bounded() -> None:
    lines = "".join(f"X{number}->B.enabled = true\n" for number in range(1_000))
    with pytest.raises(ConfigurationError) as error:
        read(f"{ON}{lines}offset.lag.max = {'9' * 6_000}\n")
    assert str(error.value).endswith("- and 901 more errors")
    assert len(str(error.value)) < 20_000
    assert len(error.value.remarks) == 1_001


@pytest.mark.parametrize("value", ["orders # and more to come", "# none"])
def test_a_comment_behind_a_value_is_told(value: str) -> None:
    assert "topics: the '#' and what follows it are a part of the value; a comment has a line of its own" in remarks(
        f"{ON}topics = {value}\n"
    )


def test_a_reference_that_no_provider_resolves_is_told_without_its_value() -> None:
    text = f"{ON}A.sasl.password = a${{secret}}b\nB.ssl.key.password = ${{file:/etc/keys:b}}\n"
    told = remarks(text)
    assert [text.partition(":")[0] for text in told] == ["A.sasl.password", "B.ssl.key.password"]
    assert not any("secret" in text or "/etc/keys" in text for text in told)
    assert remarks(f"{ON}config.providers = file\nB.ssl.key.password = ${{file:/etc/keys:b}}\n") == []
