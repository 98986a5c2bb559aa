"""Recorded facts of clusters."""

import time

import pytest

from ha_core.model import Cluster, Document, KnownGroup, KnownTopic
from ha_core.store.commits import StateChange

from .sessions import Session

AT = "2026-11-21T10:00:00Z"


def topic(name: str, cluster: str = "east", end: int = 5) -> KnownTopic:
    return KnownTopic(cluster=cluster, name=name, at=AT, partitions=1, replication=1, ends={0: end})


def test_keeping_known_topics_replaces_those_of_that_cluster_only(session: Session) -> None:
    store = session.store
    store.keep_known(KnownTopic, "east", [topic("orders"), topic("bills")])
    store.keep_known(KnownTopic, "west", [topic("orders", "west")])

    store.keep_known(KnownTopic, "east", [topic("orders", end=9)])

    assert store.known(KnownTopic, "east") == {"orders": topic("orders", end=9)}
    assert store.known(KnownTopic, "west") == {"orders": topic("orders", "west")}


def test_known_groups_are_read_by_name_and_kept_apart_from_topics(session: Session) -> None:
    group = KnownGroup(cluster="east", name="a/b:c", at=AT, offsets={"orders": {0: 3}})
    session.store.keep_known(KnownGroup, "east", [group])

    assert session.store.known(KnownGroup, "east", ["a/b:c", "other"]) == {"a/b:c": group}
    assert session.store.known(KnownTopic, "east") == {}


def test_keeping_known_topics_makes_no_revision(session: Session) -> None:
    before = session.store.load().revision

    session.store.keep_known(KnownTopic, "east", [topic("orders")])

    assert session.store.load().revision == before


@pytest.mark.parametrize("made", [True, False])
def test_keeping_known_topics_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.lose_next_reply(made)

    session.store.keep_known(KnownTopic, "east", [topic("orders")])

    assert session.losses_left() == 0
    assert set(session.store.known(KnownTopic, "east")) == {"orders"}


def test_more_known_topics_than_fit_in_one_write_are_kept_in_several(session: Session) -> None:
    many = [topic(f"t-{number}") for number in range(1_200)]

    session.store.keep_known(KnownTopic, "east", many)
    session.store.keep_known(KnownTopic, "east", many[:3])

    assert set(session.store.known(KnownTopic, "east")) == {"t-0", "t-1", "t-2"}


def test_an_unreadable_known_topic_is_left_out(session: Session) -> None:
    session.store.keep_known(KnownTopic, "east", [topic("orders"), topic("bills")])
    session.plant("/known_topics/east%3Abills", b"{")

    assert set(session.store.known(KnownTopic, "east")) == {"orders"}


def test_clusters_are_read_alone_and_unreadable_ones_are_left_out(session: Session) -> None:
    east, west = (Cluster(name=name, bootstrap=f"{name}:9092") for name in ("east", "west"))
    expected: dict[tuple[type[Document], str], int | None] = {(Cluster, cluster.name): None for cluster in (east, west)}
    session.store.commit(StateChange(change_id="seed", puts=(east, west), expected=expected))
    session.plant("/clusters/north", b"{}")
    session.plant("/topics/orders", b"{}")

    assert session.store.clusters() == {"east": east, "west": west}


def test_the_age_of_a_known_topic_is_measured_by_the_stores_own_clock(session: Session, other: Session) -> None:
    session.store.keep_known(KnownTopic, "east", [topic("orders")])
    time.sleep(0.25)
    session.store.keep_known(KnownTopic, "east", [topic("orders"), topic("bills")])

    ages = other.store.known_ages_s(KnownTopic, "east", ["orders", "bills", "missing"])

    assert ages.keys() == {"orders", "bills"}
    assert 0 <= ages["bills"] <= ages["orders"] - 0.2
    assert ages["orders"] < 60


@pytest.mark.parametrize("made", [True, False])
def test_asking_the_age_of_a_known_topic_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.store.keep_known(KnownTopic, "east", [topic("orders")])
    session.lose_next_reply(made)

    assert 0 <= session.store.known_ages_s(KnownTopic, "east", ["orders"])["orders"] < 60
    assert session.losses_left() == 0


def group(name: str, at: str, offset: int) -> KnownGroup:
    return KnownGroup(cluster="east", name=name, at=at, offsets={"orders": {0: offset}})


def test_a_renewed_group_is_replaced_alone_and_kept_by_a_reading_that_began_before(session: Session) -> None:
    store = session.store
    store.keep_known(KnownGroup, "east", [group("a", AT, 1), group("b", AT, 1)])
    # When one is renewed during a reading
    store.renew_known(
        KnownGroup, "east", [group("a", "2026-11-21T10:01:02Z", 9), group("new", "2026-11-21T10:01:02Z", 3)]
    )
    store.keep_known(KnownGroup, "east", [group("a", "2026-11-21T10:01:00Z", 5), group("b", "2026-11-21T10:01:00Z", 5)])
    # Then the reading replaces only the others
    found = store.known(KnownGroup, "east")
    assert {name: one.offsets["orders"][0] for name, one in found.items()} == {"a": 9, "b": 5, "new": 3}
    # And the next look counts for all
    store.keep_known(KnownGroup, "east", [group("a", "2026-11-21T10:02:00Z", 2)])
    assert {name: one.offsets["orders"][0] for name, one in store.known(KnownGroup, "east").items()} == {"a": 2}


def test_facts_from_a_clock_far_ahead_are_replaced_by_any_reading(session: Session) -> None:
    store = session.store
    store.renew_known(KnownGroup, "east", [group("a", "2026-11-21T11:00:00Z", 9)])
    store.keep_known(KnownGroup, "east", [group("a", AT, 5)])
    assert store.known(KnownGroup, "east")["a"].offsets["orders"][0] == 5
