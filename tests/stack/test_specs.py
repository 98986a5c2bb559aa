"""Specifications of stacks: invalid ones are refused before anything starts, with the remedy."""

import pytest
from typer.testing import CliRunner

from stack.cli import app
from stack.errors import StackError
from stack.jars import locked_versions
from stack.specs import ClusterSpec, StackSpec, parse_cluster


def test_a_cluster_spec_is_a_name_a_version_and_a_number_of_brokers() -> None:
    assert parse_cluster("east=3.9.2") == ClusterSpec("east", "3.9.2", 1)
    assert parse_cluster("west=4.3.1x3") == ClusterSpec("west", "4.3.1", 3)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("east", "'east' is not NAME=VERSION"),
        ("East=3.9.2", "'East'"),
        ("=3.9.2", "''"),
        ("east/1=3.9.2", "'east/1'"),
        ("east=", "east: ''"),
        ("east=three", "'three'"),
        ("east=3.9.2x", "'3.9.2x'"),
        ("east=3.9.2x0", "0 brokers"),
        ("east=3.9.2x10", "10 brokers"),
    ],
)
def test_an_invalid_cluster_spec_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(StackError) as caught:
        parse_cluster(text)
    assert named in str(caught.value)


def test_an_unknown_kafka_version_is_refused_with_the_locked_ones() -> None:
    with pytest.raises(StackError) as caught:
        parse_cluster("east=1.2.3")
    assert "1.2.3" in str(caught.value)
    assert {"3.9.2", "4.3.1"} <= set(locked_versions())
    for version in locked_versions():
        assert version in str(caught.value)


@pytest.mark.parametrize(
    ("clusters", "gateways", "security", "reason"),
    [
        ([], 2, "none", "needs a cluster"),
        (["east=3.9.2", "east=4.3.1"], 2, "none", "east is given more than once"),
        (["east=3.9.2"], 9, "none", "9 gateways"),
        (["east=3.9.2"], 2, "ssl", "'ssl' is none of none, sasl, tls"),
    ],
)
def test_an_invalid_stack_spec_is_refused_with_the_reason(
    clusters: list[str], gateways: int, security: str, reason: str
) -> None:
    with pytest.raises(StackError, match=reason):
        StackSpec(tuple(map(parse_cluster, clusters)), gateways, False, security)


def test_a_stack_spec_is_read_back_from_its_json() -> None:
    spec = StackSpec((parse_cluster("east=3.9.2"), parse_cluster("west=4.3.1x3")), 2, True, "sasl")
    assert StackSpec.from_json(spec.to_json()) == spec
    interactive = StackSpec((parse_cluster("east=3.9.2"),), 0, False, "none", spark_connect=True)
    assert StackSpec.from_json(interactive.to_json()) == interactive
    mirroring = StackSpec((parse_cluster("east=3.9.2"),), 0, False, "none", mirror=True)
    assert StackSpec.from_json(mirroring.to_json()) == mirroring
    soon = StackSpec((parse_cluster("east=3.9.2"),), 0, False, "none", full_speed=False)
    assert StackSpec.from_json(soon.to_json()) == soon != StackSpec((parse_cluster("east=3.9.2"),), 0, False, "none")
    assert mirroring.mirror
    assert not mirroring.spark
    assert interactive.spark, "Spark Connect comes with a master and a worker"


def test_a_failing_stack_command_exits_with_code_1_and_one_clear_line() -> None:
    result = CliRunner().invoke(app, ["up", "--cluster", "east=9.9.9"])
    assert result.exit_code == 1
    known = ", ".join(locked_versions())
    assert result.stderr.splitlines() == [
        f"error: cluster east: there is no locked module list for Kafka 9.9.9; there is one for {known}"
    ]


@pytest.mark.parametrize("members", [0, 2, 4, 7])
def test_an_ensemble_without_a_majority_of_its_own_is_refused(members: int) -> None:
    with pytest.raises(StackError, match=f"{members} members of ZooKeeper; 1, 3, 5 are possible"):
        StackSpec((parse_cluster("east=3.9.2"),), zookeepers=members)


def test_a_platform_requires_logins() -> None:
    clusters = (parse_cluster("east=3.9.2"),)

    with pytest.raises(StackError, match="a platform needs logins: add --security sasl or tls"):
        StackSpec(clusters, 1, False, "none", platform=True)
    assert StackSpec(clusters, 1, False, "tls", platform=True).platform
