from typing import Literal

import pytest

from ha_core.model import Usage, Use
from ha_core.store import usage as usage_store
from ha_core.store.usage import MAX_BYTES, MAX_NAMES, MAX_USES, Sighting, TooManyUsersError, merge, only

from .sessions import Session
from .waiting import at_once


def use(instance: str = "app-1", since: str = "2026-11-21T10:00:00Z") -> Use:
    return Use(instance=instance, how="produce", since=since)


def test_usage_recorded_by_several_gateways_is_merged(session: Session, other: Session) -> None:
    session.store.record_usage("ann", [Sighting("topic", "orders", use("app-1"))])
    other.store.record_usage("ann", [Sighting("topic", "orders", use("app-2")), Sighting("group", "billing", use())])

    assert session.store.usage() == {
        "ann": Usage(user="ann", topics={"orders": (use("app-1"), use("app-2"))}, groups={"billing": (use(),)})
    }


def test_only_the_first_of_equal_uses_is_kept(session: Session) -> None:
    session.store.record_usage("ann", [Sighting("topic", "orders", use(since="2026-01-01T00:00:00Z"))])
    session.store.record_usage("ann", [Sighting("topic", "orders", use(since="2026-02-02T00:00:00Z"))])

    assert session.store.usage()["ann"].topics == {"orders": (use(since="2026-01-01T00:00:00Z"),)}


def test_gateways_that_record_usage_at_once_lose_nothing(session: Session, other: Session) -> None:
    def record(each: Session, name: str) -> None:
        for number in range(15):
            each.store.record_usage("ann", [Sighting("topic", f"{name}-{number}", use())])

    # When two sessions record usage of a user at once
    at_once(record, (session, "a"), (other, "b"))
    # Then all of it is there
    assert len(session.store.usage()["ann"].topics) == 30


@pytest.mark.parametrize("made", [True, False])
def test_recording_usage_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.lose_next_reply(made)

    assert session.store.record_usage("ann", [Sighting("topic", "orders", use())]) == 0
    assert session.losses_left() == 0
    assert session.store.usage()["ann"].topics == {"orders": (use(),)}


def test_an_unreadable_usage_document_is_left_out(session: Session) -> None:
    session.plant("/usage/bob", b"{")
    session.store.record_usage("ann", [Sighting("topic", "orders", use())])

    assert set(session.store.usage()) == {"ann"}


@pytest.mark.parametrize("what", ["topic", "group"])
def test_names_beyond_the_bound_are_counted_and_left_out(what: Literal["topic", "group"]) -> None:
    merged, left_out = merge(Usage(user="ann"), [Sighting(what, f"n-{n}", use()) for n in range(MAX_NAMES + 3)])

    assert left_out == 3
    assert len(merged.topics) + len(merged.groups) == MAX_NAMES


def test_a_known_name_takes_further_uses_when_there_is_no_room_for_new_names() -> None:
    full, _ = merge(Usage(user="ann"), [Sighting("topic", f"t-{n}", use()) for n in range(MAX_NAMES)])

    merged, left_out = merge(full, [Sighting("topic", "t-0", use("app-2"))])

    assert left_out == 0
    assert len(merged.topics["t-0"]) == 2


def test_uses_beyond_the_bound_are_counted_and_left_out() -> None:
    names = [f"app-{chr(ord('a') + n)}" for n in range(MAX_USES + 4)]
    merged, left_out = merge(Usage(user="ann"), [Sighting("topic", "t", use(name)) for name in names])

    assert left_out == 4
    assert len(merged.topics["t"]) == MAX_USES


def test_a_usage_document_stays_below_its_size_limit(session: Session) -> None:
    seen = [Sighting("topic", f"t-{n}", use(f"{i}" * 200)) for n in range(MAX_NAMES) for i in "abcdefgh"]

    left_out = session.store.record_usage("ann", seen)

    stored = session.store.usage()["ann"]
    assert left_out > 0
    assert left_out + sum(len(uses) for uses in stored.topics.values()) == len(seen)
    assert MAX_BYTES - 5000 < len(stored.to_bytes()) <= MAX_BYTES


def test_a_client_that_was_updated_is_known_by_its_newer_software(session: Session) -> None:
    old, new = use().changed(software="apache-kafka-java/2.6.0"), use().changed(software="apache-kafka-java/2.8.0")
    session.store.record_usage("ann", [Sighting("topic", "orders", old)])
    first = session.store.usage()["ann"]

    session.store.record_usage("ann", [Sighting("topic", "orders", new.changed(since="2026-12-01T00:00:00Z"))])
    assert session.store.usage()["ann"].topics == {"orders": (new,)}
    # A gateway that does not know of it changes nothing
    session.store.record_usage("ann", [Sighting("topic", "orders", use())])
    assert session.store.usage()["ann"].topics == {"orders": (new,)}
    # And it counts as it is stored
    assert merge(first, [Sighting("topic", "orders", new)])[1] == 0


def seen(instance: str, last: str | None) -> Use:
    return Use(instance=instance, how="fetch", since="2026-01-01T00:00:00Z", last=last)


def uses_of(usage: Usage) -> dict[str, str | None]:
    return {use.instance: use.last for use in usage.topics["t"]}


def test_the_time_of_a_use_is_rewritten_only_some_hours_later() -> None:
    usage, _ = merge(Usage(user="ann"), [Sighting("topic", "t", seen("app", "2026-03-01T00:00:00Z"))])

    soon, _ = merge(usage, [Sighting("topic", "t", seen("app", "2026-03-01T02:59:00Z"))])
    later, _ = merge(usage, [Sighting("topic", "t", seen("app", "2026-03-01T03:00:00+00:00"))])
    back, _ = merge(later, [Sighting("topic", "t", seen("app", "2026-03-01T00:00:00Z"))])

    assert soon == usage
    assert uses_of(later) == uses_of(back) == {"app": "2026-03-01T03:00:00+00:00"}


def test_a_use_stored_without_a_time_gets_one_when_it_is_seen_again() -> None:
    old, _ = merge(Usage(user="ann"), [Sighting("topic", "t", seen("app", None))])

    now, left_out = merge(old, [Sighting("topic", "t", seen("app", "2026-03-01T00:00:00Z"))])

    assert (uses_of(now), left_out) == ({"app": "2026-03-01T00:00:00Z"}, 0)


def test_a_new_client_replaces_one_that_was_not_seen_for_a_day() -> None:
    live = [seen(f"app-{chr(ord('b') + n)}", "2026-03-02T12:00:00Z") for n in range(MAX_USES - 1)]
    gone = seen("app-a", "2026-03-01T00:00:00Z")
    full, _ = merge(Usage(user="ann"), [Sighting("topic", "t", one) for one in (gone, *live)])

    merged, left_out = merge(full, [Sighting("topic", "t", seen("new", "2026-03-02T13:00:00Z"))])

    assert left_out == 0
    assert set(uses_of(merged)) == {"new", *(one.instance for one in live)}


def test_ids_made_at_each_start_replace_each_other_and_no_other_client() -> None:
    others = [seen(name, "2026-03-02T00:00:00Z") for name in ("billing", "audit")]
    starts = [seen(f"app-{n}", f"2026-03-02T0{n // 10}:0{n % 10}:00Z") for n in range(60)]

    merged, left_out = merge(Usage(user="ann"), [Sighting("topic", "t", one) for one in (*others, *starts)])

    assert left_out == 0
    assert {"billing", "audit", "app-59"} <= uses_of(merged).keys()
    # And another client finds a place beside them
    late, left_out = merge(merged, [Sighting("topic", "t", seen("late", "2026-03-02T06:00:00Z"))])
    assert (left_out, len(late.topics["t"])) == (0, MAX_USES)
    assert {"billing", "audit", "late"} <= uses_of(late).keys()


def test_a_declared_use_is_never_replaced() -> None:
    declared = [Use(instance=f"app-{n}", how="declared", since="2020-01-01T00:00:00Z") for n in range(MAX_USES)]
    full, _ = merge(Usage(user="ann"), [Sighting("topic", "t", one) for one in declared])

    assert merge(full, [Sighting("topic", "t", seen("new", "2026-03-02T13:00:00Z"))]) == (full, 1)


def test_the_number_of_recorded_users_is_bounded(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_store, "MAX_USERS", 3)
    for user in ("ann", "bob", "cid"):
        session.store.record_usage(user, [Sighting("topic", "orders", use())])

    with pytest.raises(TooManyUsersError, match="usage forget USER"):
        session.store.record_usage("dan", [Sighting("topic", "orders", use())])

    session.store.record_usage("ann", [Sighting("topic", "other", use())])
    assert set(session.store.usage()) == {"ann", "bob", "cid"}
    assert set(session.store.usage()["ann"].topics) == {"orders", "other"}


def test_a_user_without_any_use_left_is_removed(session: Session) -> None:
    session.store.record_usage("ann", [Sighting("topic", "orders", use())])

    was = session.store.change_usage("ann", lambda usage: only(usage, lambda _: None))

    assert was is not None
    assert list(was.topics) == ["orders"]
    assert session.store.usage() == {}
    assert session.store.change_usage("ann", lambda usage: usage) is None
