"""The life of a mirror by runs of DAGs alone, on real clusters: made, kept, switched to and back, lost, ended."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.environment import Environment
from ha_core.operators.outcome import cut_off
from stack.harness import Stack
from tests.dags.conftest import PARTITIONS, RECORDS, Outcome, Run, Workload
from tests.kit.consumed import value_of
from tests.kit.mirroring import await_copies
from tests.kit.moving import copiers_of
from tests.kit.stacks import own_stack
from tests.operations.real_clusters import topics_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.long(
        "dags",
        "ha_core/operators/mirrors.py",
        "ha_core/operations/mirror/linking.py",
        "ha_core/operations/absence/reconciling.py",
    ),
    pytest.mark.timeout(900),
]
MORE = 7
PATIENCE_S = 60.0


stack = own_stack(gateways=1)
"""A stack of its own: one of its clusters dies."""


def said(outcome: Outcome) -> str:
    """The first line of the run's result, which the page of the run shows as well."""
    first, line = next(iter(outcome.results["report"].items()))
    assert first == "outcome"
    assert outcome.shown["report"] == cut_off(line)
    return str(line)


def through_gateway(stack: Stack, workload: Workload) -> dict[str, Any]:
    return {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{workload.user}#test", "log_level": 3}


def write(settings: dict[str, Any], topic: str, name: str) -> set[bytes]:
    """`MORE` acknowledged records in each partition; their values."""
    producer = Producer(settings)
    values = {(partition, f"{name}-{partition}-{n}".encode()) for partition in range(PARTITIONS) for n in range(MORE)}
    for partition, value in values:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    return {value for _, value in values}


def read_all(stack: Stack, workload: Workload, count: int) -> list[bytes]:
    """The first `count` records that a client of the gateway is given from the beginning, and what comes right after.

    :raises AssertionError: there are less.
    """
    settings = {**through_gateway(stack, workload), "group.id": "reads-all", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "error"})
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(workload.topic, partition, 0) for partition in range(PARTITIONS)])
        until = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} records were read"
            found += [value_of(one) for one in consumer.consume(1_000, 0.5) if one.error() is None]
        found += [value_of(one) for one in consumer.consume(1_000, 1.0) if one.error() is None]
    finally:
        consumer.close()
    return found


def committed(environment: Environment, workload: Workload, cluster: str) -> list[int]:
    """Where the group goes on in each partition, by what `cluster` keeps of it: clients' offsets, the same anywhere."""
    admin = environment.admin(environment.store.load().clusters[cluster])
    found = admin.group_offsets([workload.group])[workload.group]
    return [found[workload.topic, partition][0] for partition in range(PARTITIONS)]


def mirrors(environment: Environment, topic: str) -> dict[str, str]:
    """Source → target."""
    return {mirror.source: mirror.target for mirror in environment.store.mirrors() if mirror.topic == topic}


def test_a_pattern_is_put_and_removed_by_runs_of_dags(run_dag: Run, workload: Workload) -> None:
    environment, text = workload.environment, f"{workload.topic}*"
    link: dict[str, Any] = {"topics": [text], "from": "east", "to": "west", "reason": "a standby", "exclude": ["x-*"]}
    end: dict[str, Any] = {"topics": [text], "cluster": "west", "reason": "no longer needed", "dry_run": False}
    # When it is only looked at, then the topics of today are told, and nothing is kept
    looked = run_dag("link_mirror", {**link, "dry_run": True})
    assert said(looked) == f"DRY RUN: would mirror {text} from east to west, later topics too: 1 topic now"
    assert environment.store.mirror_patterns() == []
    # When it is put, then it stands, and no mirror is made by the run itself
    made = run_dag("link_mirror", {**link, "dry_run": False})
    assert made.state == "success", made.results
    assert said(made).startswith(
        f"DONE: topics of east that {text} chooses are mirrored to west from now on, later ones"
    )
    (pattern,) = environment.store.mirror_patterns()
    assert (pattern.pattern, pattern.route, pattern.exclude) == (text, ("east", "west"), ("x-*",))
    assert mirrors(environment, workload.topic) == {}
    # And asked for again it changes nothing
    again = run_dag("link_mirror", {**link, "dry_run": False})
    assert said(again) == "NOTHING TO DO: nothing was changed: the patterns stand like this already"
    # When it is removed, then it is gone, and a second time it is refused
    ended = run_dag("unlink_mirror", end)
    assert said(ended).startswith(f"DONE: removed {text}: later topics get no mirror by it, by ")
    assert environment.store.mirror_patterns() == []
    refused = run_dag("unlink_mirror", end)
    assert (refused.state, said(refused)[:26]) == ("failed", "REFUSED: nothing changed. ")


def test_a_mirror_lives_by_runs_of_dags_through_switches_and_the_loss_of_a_cluster(
    run_dag: Run, stack: Stack, workload: Workload
) -> None:
    topic, user = workload.topic, f"user:{workload.user}"
    link: dict[str, Any] = {"topics": [topic], "from": "east", "to": "west", "reason": "a standby"}
    move: dict[str, Any] = {"scope": [user], "from": "east", "to": "west", "reason": "a drill", "dry_run": False}
    # When a mirror is only looked at, then what would be done is said, and nothing is there
    looked = run_dag("link_mirror", {**link, "dry_run": True})
    assert said(looked) == "DRY RUN: would mirror 1 topic from east to west"
    assert mirrors(workload.environment, topic) == {}
    # When it is made, then it stands; and asked for again it is refused, as there is one
    made = run_dag("link_mirror", {**link, "dry_run": False})
    assert made.state == "success", made.results
    assert said(made).startswith("DONE: mirrored from east to west from now on: 1 topic, by ")
    assert mirrors(workload.environment, topic) == {"east": "west"}
    again = run_dag("link_mirror", {**link, "dry_run": False})
    assert (again.state, said(again)[:26]) == ("failed", "REFUSED: nothing changed. ")
    with copiers_of(workload.environment, {topic: PARTITIONS}) as copiers, await_copies(copiers, topic, "west"):
        # When it is synced, then the group's offsets are there
        synced = run_dag("sync_mirrors", {"topics": [topic]})
        assert synced.state == "success", synced.results
        assert said(synced) == "DONE: changed 1 thing on standbys, which are as their sources"
        assert committed(workload.environment, workload, "west") == committed(workload.environment, workload, "east")
        # When it is switched as planned, then its copy is written, and east is the standby
        there = run_dag("switch", move)
        assert said(there).startswith("DONE: moved 1 topic and 1 group from east to west")
        assert workload.view.topics[topic].clusters == {"west"}
        assert mirrors(workload.environment, topic) == {"west": "east"}
        kept = write(through_gateway(stack, workload), topic, "in-west")
    with copiers_of(workload.environment, {topic: PARTITIONS}) as copiers, await_copies(copiers, topic, "east"):
        # When it is switched back, then east is written again, with what came meanwhile
        back = run_dag("switch", {**move, "from": "west", "to": "east"})
        assert said(back).startswith("DONE: moved 1 topic and 1 group from west to east")
        assert workload.view.topics[topic].clusters == {"east"}
        kept |= write(through_gateway(stack, workload), topic, "in-east")
    with copiers_of(workload.environment, {topic: PARTITIONS}) as copiers, await_copies(copiers, topic, "west"):
        pass
    # When east dies with records that were not copied
    lost = write(through_gateway(stack, workload), topic, "lost")
    record(workload.environment, ["east", "west"])
    stack.kill("cluster/east")
    forced = run_dag("switch", {**move, "mode": "forced", "unread": "wait"})
    # Then clients go on at the copy, and the first line says that it was taken for dead, and what is left to do
    assert forced.state == "success", forced.results
    assert said(forced).startswith("DONE: moved 1 topic and 1 group from east to west")
    assert (
        "; east is taken for dead; `switchyard mirror reconcile east`, when it is back, counts what no copy had"
        in said(forced)
    )
    assert "`switchyard mirror reconcile east`" in (forced.shown["report"] or "")  # the next step is not cut off
    assert workload.view.topics[topic].clusters == {"west"}
    assert committed(workload.environment, workload, "west") == [5 + partition for partition in range(PARTITIONS)]
    assert mirrors(workload.environment, topic) == {}
    kept |= write(through_gateway(stack, workload), topic, "after")
    # When it is back, and is looked at, then what it has more is counted
    stack.restart("cluster/east")
    reconcile: dict[str, Any] = {"cluster": "east", "topics": [topic], "reason": "it is back"}
    counted = run_dag("reconcile_returned_cluster", {**reconcile, "dry_run": True})
    beyond = f"{len(lost)} records of {PARTITIONS} partitions of east were not mirrored"
    assert said(counted) == f"DRY RUN: would keep that {beyond}, and mirror 1 topic to it"
    # When it is reconciled, then it is the standby
    done = run_dag("reconcile_returned_cluster", {**reconcile, "dry_run": False})
    assert said(done).startswith(f"DONE: {beyond}: no client gets them, and the log has the commands that fetch them")
    assert said(done).endswith("; mirrored to it from now on: 1 topic")
    assert mirrors(workload.environment, topic) == {"west": "east"}
    # And all but the tail is read, each record once
    with copiers_of(workload.environment, {topic: PARTITIONS}) as copiers, await_copies(copiers, topic, "east"):
        pass
    assert sorted(read_all(stack, workload, PARTITIONS * RECORDS + len(kept))) == sorted(
        [b"record"] * PARTITIONS * RECORDS + [*kept]
    )
    # When the mirror is ended with its copy, then that is gone, and the topic is as it was
    unlink: dict[str, Any] = {"topics": [topic], "cluster": "east", "delete_copy": True, "reason": "enough"}
    would = run_dag("unlink_mirror", {**unlink, "dry_run": True})
    assert said(would) == "DRY RUN: would end 1 mirror in east, and delete what was copied"
    ended = run_dag("unlink_mirror", {**unlink, "dry_run": False})
    assert said(ended).startswith("DONE: ended 1 mirror in east, and what was copied is deleted, by ")
    assert topic not in topics_of(stack, "east")
    assert topic in topics_of(stack, "west")
    assert (mirrors(workload.environment, topic), workload.environment.store.locks()) == ({}, [])
    assert len(read_all(stack, workload, PARTITIONS * RECORDS + len(kept))) == PARTITIONS * RECORDS + len(kept)
