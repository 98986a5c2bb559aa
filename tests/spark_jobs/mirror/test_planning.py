"""Assignment of partitions to slots."""

from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.model import Mirror, MirrorReport, PartitionReport
from spark_jobs.mirror.planning import REBALANCE_S, Placement, partitions, shares, split
from spark_jobs.mirror.task import MAX_PARTITIONS, bounded

ORDERS = Mirror.of("orders", "east", "west", "link-1", "2026-11-23T02:00:00Z", "ann")
BILLS = Mirror.of("bills", "west", "east", "link-2", "2026-11-23T02:00:00Z", "ann")
COUNTS = {("east", "orders"): 4, ("west", "orders"): 4, ("west", "bills"): 2, ("east", "bills"): 2}


def keys(topic: str, *numbers: int) -> list[tuple[str, int]]:
    return [(topic, number) for number in numbers]


def measured(slot: int, **bytes_s: int) -> MirrorReport:
    """:param bytes_s: `p0`, `p1` … of orders."""
    reports = [
        PartitionReport(mirror=ORDERS.key, topic="orders", partition=int(name[1:]), state="copying", bytes_s=value)
        for name, value in bytes_s.items()
    ]
    return MirrorReport(slot=slot, job="j", partitions=tuple(reports))


def test_partitions_are_copied_that_source_and_target_have() -> None:
    counts = COUNTS | {("west", "orders"): 3}
    assert list(partitions([ORDERS], counts)) == keys(ORDERS.key, 0, 1, 2)
    assert list(partitions([ORDERS], {("east", "orders"): 3})) == []


def test_the_document_of_a_slot_has_all_that_its_task_needs_of_each_mirror() -> None:
    limited = ORDERS.changed(max_bytes_s=4_000)

    mirror_shares = shares(
        [limited, BILLS], {(ORDERS.key, 0): 1, (ORDERS.key, 1): 0, (ORDERS.key, 3): 1, (BILLS.key, 1): 1}
    )

    assert mirror_shares.keys() == {0, 1}
    assert [(share.mirror, share.partitions, share.max_bytes_s) for share in mirror_shares[1]] == [
        (BILLS.key, (1,), None),
        (ORDERS.key, (0, 3), 2_666),
    ]
    assert [(share.mirror, share.partitions, share.max_bytes_s) for share in mirror_shares[0]] == [
        (ORDERS.key, (1,), 1_333)
    ]
    id_ = CopyId("link-1", "orders", 1)
    assert copies_of(mirror_shares[0][0], mirror_shares[0][0].partitions) == [
        CopyPartition(id_, ("switchyard-copies", log_partition(id_, 16)))
    ]


def test_common_limit_is_split_by_partitions_and_never_exceeded() -> None:
    placed = {(ORDERS.key, 0): 1, (ORDERS.key, 1): 0, (ORDERS.key, 2): 1, (ORDERS.key, 3): 1, (BILLS.key, 0): 0}
    mirror_shares = shares([ORDERS, BILLS], placed | {(BILLS.key, 1): 0, (BILLS.key, 2): 1})
    every = [share for its in mirror_shares.values() for share in its]

    of_slots = {slot: split(100_000, its, every) for slot, its in mirror_shares.items()}

    assert of_slots == {0: 42_857, 1: 57_142}
    of_mirrors = {share.mirror: split(of_slots[1], [share], mirror_shares[1]) for share in mirror_shares[1]}
    assert of_mirrors == {ORDERS.key: 42_856, BILLS.key: 14_285}
    assert split(None, mirror_shares[1], every) is None


def test_partitions_are_spread_over_the_slots_whose_tasks_run_and_stay_there() -> None:
    placement = Placement()
    wanted = list(partitions([ORDERS, BILLS], COUNTS))

    first = dict(placement.place(wanted, {0, 3}, 0.0))
    assert sorted(first.values()) == [0, 0, 0, 3, 3, 3]

    grown = list(partitions([ORDERS, BILLS], COUNTS | {("west", "bills"): 4, ("east", "bills"): 4}))
    second = dict(placement.place(grown, {0, 3}, 1.0))
    assert second.keys() - first.keys() == set(keys(BILLS.key, 2, 3))
    assert {key: slot for key, slot in second.items() if key in first} == first


def test_partitions_of_a_dead_task_move_to_others_and_nothing_else_moves() -> None:
    placement = Placement()
    wanted = list(partitions([ORDERS, BILLS], COUNTS))
    first = dict(placement.place(wanted, {0, 1, 2}, 0.0))

    second = dict(placement.place(wanted, {0, 2}, 1.0))

    assert set(second.values()) == {0, 2}
    assert {key for key in first if first[key] != second[key]} == {key for key, slot in first.items() if slot == 1}
    assert dict(placement.place(wanted, set(), 2.0)) == {}


def test_burst_moves_nothing_and_a_lasting_load_does_after_a_while() -> None:
    placement = Placement()
    wanted = list(partitions([ORDERS], COUNTS))
    even = measured(0, p0=100, p1=100, p2=100, p3=100)
    placement.measure([even], 0.0)
    before = dict(placement.place(wanted, {0, 1}, 0.0))
    assert sorted(before.values()) == [0, 0, 1, 1]
    (first, second), third = [key for key in before if before[key] == 0], [key for key in before if before[key] == 1]
    busy = {f"p{first[1]}": 900, f"p{second[1]}": 900, f"p{third[0][1]}": 1, f"p{third[1][1]}": 1}

    placement.measure([measured(0, **busy)], 10.0)
    assert dict(placement.place(wanted, {0, 1}, 10.0)) == before

    for second_s in range(20, 400, 10):
        placement.measure([measured(0, **busy)], float(second_s))
    after = dict(placement.place(wanted, {0, 1}, 400.0 + REBALANCE_S))
    assert after[first] != after[second]


def test_report_is_bounded_and_starts_with_uncopied_partitions() -> None:
    lagging = [
        PartitionReport(mirror="m", topic="t", partition=n, state="copying", lag_records=n)
        for n in range(MAX_PARTITIONS)
    ]
    stopped = PartitionReport(mirror="m", topic="t", partition=MAX_PARTITIONS, state="stopped", reason="why")

    report = bounded(MirrorReport(slot=0, job="j"), [*lagging, stopped])

    assert (len(report.partitions), report.left_out) == (MAX_PARTITIONS, 1)
    assert report.partitions[0] == stopped
    assert [partition.lag_records for partition in report.partitions[1:3]] == [MAX_PARTITIONS - 1, MAX_PARTITIONS - 2]
