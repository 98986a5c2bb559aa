"""The documents of the mirror job: claims, tasks and reports."""

import pytest

from ha_core.model import (
    CopiedMirror,
    CopiedPartition,
    Document,
    GroupCheckpoints,
    Mirror,
    MirrorCopies,
    MirrorJob,
    MirrorReport,
    MirrorShare,
    MirrorTask,
    PartitionReport,
    Run,
    UnreadableDocumentError,
)
from ha_core.store.commits import StateChange
from ha_core.store.errors import AlreadyRegisteredError, ConflictError, StoreUnavailableError
from tests.kit.waiting import until

from .sessions import Session

SHARE = MirrorShare(
    mirror="orders@west", topic="orders", source="east", target="west", link="l1", log="copies", log_partitions=4,
    partitions=(0, 2),
)  # fmt: skip


def task(slot: int = 0, job: str = "j1", *shares: MirrorShare) -> MirrorTask:
    return MirrorTask(slot=slot, job=job, shares=shares)


def test_tasks_of_slots_are_written_all_at_once_and_followed(session: Session, other: Session) -> None:
    followed = other.store.follow_mirror_task(1)
    assert followed.read() is None
    before = session.store.load().revision

    versions = session.store.write_mirror_tasks({0: (task(0), None), 1: (task(1, "j1", SHARE), None)})
    assert versions == {0: 0, 1: 0} == other.store.mirror_slots()
    assert followed.read() == task(1, "j1", SHARE)

    assert session.store.write_mirror_tasks({1: (task(1), versions[1])}) == {1: 1}
    assert followed.read() == task(1)
    assert followed.read() is followed.read()
    assert session.store.load().revision == before


def test_a_driver_that_has_lost_the_lead_changes_nothing(session: Session, other: Session) -> None:
    versions = session.store.write_mirror_tasks({0: (task(0, "j1", SHARE), None), 1: (task(1, "j1"), None)})
    other.store.write_mirror_tasks({1: (task(1, "j2", SHARE), versions[1])})

    with pytest.raises(ConflictError, match="/mirror_tasks/1 is at version 1, the change was based on at version 0"):
        session.store.write_mirror_tasks({0: (task(0), versions[0]), 1: (task(1, "j1", SHARE), versions[1])})

    assert other.store.follow_mirror_task(0).read() == task(0, "j1", SHARE)
    assert other.store.follow_mirror_task(1).read() == task(1, "j2", SHARE)


@pytest.mark.parametrize("made", [True, False])
def test_writing_tasks_of_slots_survives_a_lost_reply(session: Session, made: bool) -> None:
    versions = session.store.write_mirror_tasks({0: (task(0), None)})
    session.lose_next_reply(made)

    changed = {0: (task(0, "j1", SHARE), versions[0]), 1: (task(1), None)}
    assert session.store.write_mirror_tasks(changed) == {0: 1, 1: 0}

    assert session.losses_left() == 0
    assert session.store.follow_mirror_task(0).read() == task(0, "j1", SHARE)


def test_many_partitions_of_a_task_and_their_report_are_small(session: Session, other: Session) -> None:
    shares = tuple(SHARE.changed(mirror=f"t-{n}@west", topic=f"t-{n}", partitions=tuple(range(50))) for n in range(200))
    session.store.write_mirror_tasks({0: (task(0, "j1", *shares), None)})
    reports = [
        PartitionReport(mirror=f"t-{n}@west", topic=f"t-{n}", partition=p, state="copying", source=n * p, source_end=9)
        for n in range(100)
        for p in range(50)
    ]
    report = MirrorReport(slot=0, job="j1", partitions=tuple(reports))
    with_nothing = MirrorReport(slot=0, job="j1")
    session.store.register(with_nothing).update(report)

    until(lambda: other.store.mirror_reports() == {0: report}, "reported")
    assert other.store.follow_mirror_task(0).read() == task(0, "j1", *shares)
    for path in ("/mirror_tasks/0", "/mirror_reports/0"):
        node = other.store._tree.get(path)
        assert node is not None
        assert len(node.data) < 60_000


def test_positions_of_many_copies_take_little_space(session: Session, other: Session) -> None:
    runs = [Run(n * 12 + n % 7, n * 10, 10) for n in range(200)]
    copied = CopiedPartition.of(runs[-1].after + 1, True, runs)
    mirrors = tuple(
        CopiedMirror(mirror=f"t-{n}@west", link="l1", partitions=dict.fromkeys(range(10), copied)) for n in range(10)
    )
    session.store.register(MirrorCopies(slot=3, job="j1")).update(MirrorCopies(slot=3, job="j1", mirrors=mirrors))

    followed = other.store.follow_mirror_copies()
    until(lambda: [copies.mirrors for copies in followed.read()] == [mirrors], "told")
    assert followed.read()[0] is followed.read()[0]
    assert mirrors[0].partitions[0].runs == tuple(runs)
    node = other.store._tree.get("/mirror_copies/3")
    assert node is not None
    assert len(node.data) < 60_000


def test_a_slot_belongs_to_one_session_until_that_has_ended(session: Session, other: Session) -> None:
    mine = session.store.register(MirrorReport(slot=0, job="j1"))
    assert mine.held()
    with pytest.raises(AlreadyRegisteredError, match="mirror report 0 is registered by ZooKeeper session 0x"):
        other.store.register(MirrorReport(slot=0, job="j2"))

    mine.close()

    assert other.store.register(MirrorReport(slot=0, job="j2")).held()


def test_a_task_that_was_away_too_long_loses_its_slot_to_another(session: Session, other: Session) -> None:
    mine = session.store.register(MirrorReport(slot=0, job="j1"))
    session.suspend()
    with pytest.raises(StoreUnavailableError):
        mine.held()
    session.remove("/mirror_reports/0")
    theirs = other.store.register(MirrorReport(slot=0, job="j2"))

    session.resume()

    session.store.load()
    assert not mine.held()
    assert theirs.held()


def test_a_slot_is_kept_over_a_session_loss_if_no_other_task_has_taken_it(session: Session, other: Session) -> None:
    mine = session.store.register(MirrorReport(slot=0, job="j1"))
    before = mine.session

    session.expire()

    session.store.load()
    assert mine.held()
    assert mine.session not in (0, before)
    assert other.store.mirror_reports() == {0: MirrorReport(slot=0, job="j1")}


def test_one_driver_leads(session: Session, other: Session) -> None:
    job = MirrorJob(id="j1", host="h", pid=1, since="2026-11-23T02:00:00Z")
    session.store.register(job)

    assert other.store.read(MirrorJob, "mirror") == (job, 0)
    with pytest.raises(AlreadyRegisteredError, match="mirror job mirror is registered"):
        other.store.register(job.changed(id="j2"))


def test_an_unreadable_lost_tail_blocks_neither_other_topics_nor_other_clusters(session: Session) -> None:
    session.plant("/lost_tails/orders%40east%3Aop", b'{"schema":2}')

    assert session.store.lost_tails(["bills", "orders@east"]) == []
    assert session.store.lost_tails(cluster="west") == []
    for more in ({"topics": ["orders"]}, {"cluster": "east"}, {"topics": ["orders"], "cluster": "east"}):
        with pytest.raises(UnreadableDocumentError, match=r"zkCli\.sh delete ROOT/lost_tails/orders%40east%3Aop"):
            session.store.lost_tails(**more)
    with pytest.raises(UnreadableDocumentError):
        session.store.lost_tails()


def test_mirrors_are_listed_and_unreadable_ones_are_left_out(session: Session) -> None:
    mirrors = [Mirror.of(topic, "east", "west", "l1", "2026-11-23T02:00:00Z", "ann") for topic in ("a", "b")]
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None for mirror in mirrors}
    session.store.commit(StateChange(change_id="seed", puts=tuple(mirrors), expected=expected))
    # Given documents that are damaged, of a later version, and of another mirror
    session.plant("/mirrors/c%40west", b"{}")
    session.plant("/mirrors/d%40west", mirrors[0].changed(key="d@west", schema_=2).to_bytes())
    session.plant("/mirrors/e%40west", mirrors[0].to_bytes())

    mirrors_found = session.store.find_mirrors()

    assert (session.store.mirrors(), mirrors_found.readable) == (mirrors, mirrors)
    assert mirrors_found.unreadable.keys() == {"c@west", "d@west", "e@west"}
    assert mirrors_found.unreadable["d@west"].endswith("schema 2 is newer than 1, the newest that this version reads")
    assert mirrors_found.unreadable["e@west"] == "/mirrors/e%40west: the document inside is of 'a@west'"


def test_a_view_can_be_loaded_without_unreadable_mirrors(session: Session) -> None:
    session.plant("/mirrors/c%40west", b"{}")

    with pytest.raises(UnreadableDocumentError, match="/mirrors/c%40west"):
        session.store.load()
    assert session.store.load(left_out=(Mirror,)).mirrors == {}
    # Other unreadable documents are still an error
    session.plant("/topics/orders", b"{}")
    with pytest.raises(UnreadableDocumentError, match="/topics/orders"):
        session.store.load(left_out=(Mirror,))


def checkpoints(group: str, target: str = "west", link: str = "l1") -> GroupCheckpoints:
    return GroupCheckpoints.of("east", target, group, "2026-11-23T02:00:00Z", {"orders": link}, {"orders": {0: (9, 4)}})


def test_checkpoints_of_a_pair_are_replaced_removed_and_forgotten_with_it(session: Session, other: Session) -> None:
    # Given checkpoints of two pairs of clusters, of which one name begins with the other's
    ours, theirs = [checkpoints("report>1"), checkpoints("report/2")], checkpoints("report>1", target="west-2")
    session.store.keep_checkpoints([*ours, theirs])
    assert other.store.checkpoints("east", "west") == {one.group: one for one in ours}
    # When one is replaced by another process, and one is gone
    newer = ours[0].changed(offsets={"orders": {0: (12, 7)}})
    other.store.keep_checkpoints([newer], [ours[1]])
    # Then
    assert session.store.checkpoints("east", "west") == {"report>1": newer}
    # And those of pairs without a mirror are forgotten
    session.store.forget_ended_checkpoints([("east", "west-2")])
    assert other.store.checkpoints("east", "west") == {}
    assert other.store.checkpoints("east", "west-2") == {"report>1": theirs}


def test_checkpoints_of_an_ended_mirror_do_not_count_for_the_next_one() -> None:
    assert checkpoints("report").valid({"orders": "l1"}) == {("orders", 0): (9, 4)}
    assert checkpoints("report").valid({"orders": "l2"}) == {}
    assert checkpoints("report").valid({"bills": "l1"}) == {}
