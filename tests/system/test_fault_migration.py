"""A cluster dies under load, its topics move, and it returns: with more records than known, fewer, or never."""

import shutil
from pathlib import Path

import pytest

from ha_core.cli.exits import ATTENTION
from ha_core.operations.absence.given_up import give_up, plan_giving_up
from ha_core.operations.absence.returned import check_origins
from ha_core.operations.access.bindings import apply_bindings, plan_bindings
from ha_core.operations.access.bindings_file import parse
from ha_core.operations.clusters import registered
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit.progress import acked, await_more, await_records, given, read_all
from tests.kit.running import CommandFailedError, Run, bootstrap, switchyard
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.migrating import PARTITIONS
from tests.system.watching import assert_ascending

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "ha_core/operations/migration/crossing/migrate.py",
        "ha_core/operations/absence",
        "ha_core/operations/absence/given_up.py",
    ),
]
RATE = 100

stack = own_stack()


run = bound_run(PARTITIONS, {"retention.ms": "86400000"}, east_dies=True)


def at_work(run: Run, name: str) -> tuple[ClientProcess, ClientProcess, ClientProcess]:
    """A producer, a group of one and a reader from the beginning. Facts of east are recorded before its end."""
    producer = run.start("confluent-producer", f"w-{name[-20:]}", name, rate=RATE, idempotence="on")
    member = run.start("confluent-consumer", f"m-{name[-20:]}", name, group=name, commit="batch")
    reader = run.start("confluent-consumer", f"r-{name[-20:]}", name, seek="beginning")
    await_records(200, producer)
    await_records(100, member, reader)
    switchyard(run.stack, "facts", "record")
    await_more(200, producer)
    return producer, member, reader


def migrate_from_fault(run: Run, name: str, unread: str) -> None:
    """:raises AssertionError: it did not succeed."""
    words = ("--from", "east", "--to", "west", "--unread", unread, "--groups", "--reason", "rack fire", "--yes")
    document = switchyard(run.stack, "migrate-from-fault", name, *words)
    assert document["result"] == "succeeded", document


def cuts(run: Run, name: str) -> dict[int, int]:
    return {cut.partition: cut.cut for cut in run.cuts([name])}


def held_by(run: Run, name: str, cluster: str) -> set[str]:
    return {value for dump in run.dumps(name) if dump.cluster == cluster for value in dump.records.values()}


def test_producers_continue_at_once_and_records_of_a_returned_cluster_are_read_in_their_place(
    run: Run, stack: Stack, name: str
) -> None:
    producer, member, reader = at_work(run, name)
    stack.kill("cluster/east")
    migrate_from_fault(run, name, "wait")
    await_more(300, producer)

    # While east is away, readers below the cut get nothing, and none jumps over it
    cut = cuts(run, name)
    assert all(record.offset < cut[record.partition] for consumer in (member, reader) for record in given(consumer))

    # When it is back, its extents are closed at their real ends, and no cut moves
    stack.restart("cluster/east")
    checked = switchyard(stack, "origins", "check", name)
    assert {partition["outcome"] for partition in checked["returned"]} == {"whole"}
    assert sum(partition["beyond"] for partition in checked["returned"]) > 0
    assert cuts(run, name) == cut
    await_more(200, producer)
    producer.stop()

    # Then its records are read in their place, then what west has; late produce never got there
    east = held_by(run, name, "east")
    promised = {ack.value for ack in acked(producer) if ack.offset >= 0}
    assert_all_is_read(promised | east, reader, member)
    places = {ack.value: (ack.partition, ack.offset) for ack in acked(producer) if ack.offset >= 0}
    read = {record.value: (record.partition, record.offset) for record in given(reader)}
    # Records that east had appended at its death and west got again have two offsets: the first was never acknowledged
    doubled = east & held_by(run, name, "west")
    assert all(read[value] == place for value, place in places.items() if value not in doubled)
    found_ends = {returned["partition"]: returned["found_end"] for returned in checked["returned"]}
    ends = {dump.partition: max(dump.records, default=-1) + 1 for dump in run.dumps(name) if dump.cluster == "east"}
    assert all(ends[partition] <= end for partition, end in found_ends.items())


def assert_one_record_per_offset(member: ClientProcess) -> None:
    """It joins the new cluster at its group's last seen offset, so it reads some records again, at their offsets."""
    seen: dict[tuple[int, int], str] = {}
    for record in given(member):
        assert seen.setdefault((record.partition, record.offset), record.value) == record.value


def assert_all_is_read(promised: set[str], reader: ClientProcess, member: ClientProcess) -> None:
    """Both get these records, each at its offset, and end."""
    read_all(promised, reader, member)
    assert_ascending(reader)
    assert_one_record_per_offset(member)


def test_single_partitions_of_a_dead_cluster_go_on_elsewhere_and_the_others_wait_for_it(run: Run, name: str) -> None:
    # Given clients at work, whose cluster dies
    producer, member, reader = at_work(run, name)
    run.stack.kill("cluster/east")
    # When one of three partitions is moved by force
    migrate_from_fault(run, f"{name}:1", "wait")
    cut = cuts(run, name)
    # Then the target gets writes for that partition only
    assert set(cut) == {1}

    def written() -> int:
        return sum(ack.partition == 1 and ack.offset >= cut[1] for ack in acked(producer))

    until(lambda: written() > 30, "the partition is written")
    # When the others follow, and the cluster is back
    migrate_from_fault(run, name, "wait")
    assert cuts(run, name) == {**cuts(run, name), **cut}
    run.stack.restart("cluster/east")
    checked = switchyard(run.stack, "origins", "check", name)
    # Then all records are read, each at its offset
    assert {partition["partition"]: partition["outcome"] for partition in checked["returned"]} == dict.fromkeys(
        range(PARTITIONS), "whole"
    )
    producer.stop()
    promised = {ack.value for ack in acked(producer) if ack.offset >= 0} | held_by(run, name, "east")
    assert_all_is_read(promised, reader, member)


def test_readers_that_skip_continue_in_the_new_cluster_and_stay_there_when_the_old_one_returns(
    run: Run, stack: Stack, name: str
) -> None:
    # Given clients at work
    producer, member, reader = at_work(run, name)
    # When their cluster dies, and their topic moves on without unread records
    stack.kill("cluster/east")
    migrate_from_fault(run, name, "skip")
    # Then readers go on in the new cluster
    await_more(200, member, reader)
    cut = cuts(run, name)
    # When the old one returns
    stack.restart("cluster/east")
    checked = switchyard(stack, "origins", "check", name)
    # Then they stay where they are, and get all there is
    assert all(partition["skipped"] for partition in checked["returned"])
    producer.stop()
    promised = {ack.value for ack in acked(producer) if ack.offset >= cut[ack.partition]}
    assert_all_is_read(promised, reader, member)
    # And after the request, readers from the beginning get the skipped records
    switchyard(stack, "origins", "check", name, "--serve-skipped")
    whole = run.start("confluent-consumer", f"a-{name[-20:]}", name, seek="beginning")
    read_all(held_by(run, name, "east") | promised, whole)
    assert_ascending(whole)


def test_readers_of_a_cluster_that_returns_empty_wait_until_an_operator_accepts_the_loss(run: Run, name: str) -> None:
    # Given clients at work, whose cluster has died, and returned without its logs
    producer, member, reader = at_work(run, name)
    run.stack.kill("cluster/east")
    migrate_from_fault(run, name, "wait")
    for log in Path(run.stack.dir).glob(f"**/cluster-east*/data/{name}-*"):
        shutil.rmtree(log)
    run.stack.restart("cluster/east")
    # When it is checked
    with pytest.raises(CommandFailedError) as lost:
        switchyard(run.stack, "origins", "check", name)
    # Then the loss is counted, and no reader skips it
    assert lost.value.code == ATTENTION
    assert lost.value.document["result"] == "less"
    assert sum(partition["missing"] for partition in lost.value.document["returned"]) >= 200
    cut = cuts(run, name)
    before = len(given(reader))
    await_more(200, producer)
    assert len(given(reader)) == before
    assert all(record.offset < cut[record.partition] for record in given(member))
    # When the operator accepts it
    accepted = switchyard(run.stack, "origins", "check", name, "--accept-loss", "--reason", "restored elsewhere")
    # Then readers go on in the new cluster
    assert {partition["outcome"] for partition in accepted["returned"]} == {"accepted"}
    producer.stop()
    promised = {ack.value for ack in acked(producer) if ack.offset >= cut[ack.partition]}
    assert_all_is_read(promised, reader, member)


def test_readers_of_a_dead_cluster_continue_when_it_is_given_up_and_it_can_be_removed(run: Run, name: str) -> None:
    # Given readers that wait for a dead cluster
    producer, member, reader = at_work(run, name)
    run.stack.kill("cluster/east")
    migrate_from_fault(run, name, "wait")
    await_more(50, producer)
    cut = cuts(run, name)
    assert all(record.offset < cut[record.partition] for consumer in (member, reader) for record in given(consumer))
    words = ("origins", "give-up", "east", name, "--reason", "the hall has burnt down")
    # When it is given up
    counted = switchyard(run.stack, *words, "--dry-run")
    given_up = switchyard(run.stack, *words, "--yes")
    # Then the loss was counted before: the known records, and the unknown ones up to the cut
    assert {extent["partition"]: extent["end"] for extent in counted["extents"]} == cut
    assert counted["known_lost"] == sum(extent["known_end"] for extent in counted["extents"]) >= 200
    assert counted["most_lost"] == sum(cut.values())
    assert {group["group"] for group in counted["groups"]} == {name}
    assert (given_up["result"], given_up["extents"]) == ("succeeded", counted["extents"])
    # Readers resume at the target's start, and miss none of its records
    await_more(50, producer)
    producer.stop()
    assert_all_is_read({ack.value for ack in acked(producer) if ack.offset >= cut[ack.partition]}, reader, member)
    for consumer in (reader, member):
        above = [record for record in given(consumer) if record.offset >= cut[record.partition]]
        assert {p: min(record.offset for record in above if record.partition == p) for p in cut} == cut
    # When nothing refers to it any more, it can be removed; even if it comes back, it is not served
    with connect(EnvironmentSettings(run.stack.zookeeper), by="test:operator") as environment:
        nothing_refers_to_east(environment)
        registered.remove_cluster(environment, "east", force=True)  # other tests may have left topics there
        registered.add_cluster(environment, "east", bootstrap(run.stack, "east"), default=True)
        run.stack.restart("cluster/east")
        assert check_origins(environment, [name]).returns == ()
    west = held_by(run, name, "west")
    whole = run.start("confluent-consumer", f"a-{name[-20:]}", name, seek="beginning")
    whole.wait_for(len(west), "delivered")
    whole.stop()
    assert {record.value for record in given(whole)} == west


def nothing_refers_to_east(environment: Environment) -> None:
    """Other tests have left topics and bindings there."""
    give_up(environment, plan_giving_up(environment, "east"), "the hall has burnt down")
    users = sorted(environment.store.load().bindings)
    bindings = ", ".join(f"{user}: {{cluster: west}}" for user in users)
    apply_bindings(environment, plan_bindings(environment, parse(f"bindings: {{{bindings}}}", "all.yaml")))
