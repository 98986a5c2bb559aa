"""The usage of clients is recorded, whatever names others make up."""

from collections.abc import Callable

import pytest

from gateway.process import usage_reporter as driver
from gateway.process.usage_reporter import AGAIN_AT_ONCE, MAX_BYTES_OF_A_USER, UsageReporter, _Told
from gateway.runtime import clock
from gateway.session.commands import Saw
from ha_core.model import Identity
from ha_core.store.usage import Sighting, TooManyUsersError


async def test_made_up_names_of_one_user_do_not_prevent_the_usage_of_others_from_being_recorded() -> None:
    written: dict[str, list[Sighting]] = {}

    def record(user: str, uses: list[Sighting]) -> int:
        written.setdefault(user, []).extend(uses)
        return 0

    sightings = UsageReporter(record)
    # Given a user who uses names without end
    for n in range(250_000):
        sightings.saw(Saw(Identity("greedy", "app"), "topic", f"topic-{n}", "fetch"))
    for n in range(1_000):
        sightings.saw(Saw(Identity("long", "app"), "topic", f"{n}" * 10_000, "fetch"))
    # When another one uses a topic
    sightings.saw(Saw(Identity("modest", "app"), "topic", "orders", "produce"))
    await sightings.flush()
    # Then that is recorded, and few of the made-up names are kept
    assert [use.name for use in written["modest"]] == ["orders"]
    assert sum(len(use.name) for use in written["long"]) <= MAX_BYTES_OF_A_USER
    # And the first user's share was spent on the first names
    assert written["greedy"][0].name == "topic-0"


async def test_a_use_of_a_topic_that_was_deleted_and_created_again_is_recorded_again() -> None:
    written: list[str] = []

    def record(_: str, uses: list[Sighting]) -> int:
        written.extend(sighting.name for sighting in uses)
        return 0

    sightings = UsageReporter(record)
    for _ in range(2):
        for topic in ("orders", "other"):
            sightings.saw(Saw(Identity("ann", "app"), "topic", topic, "fetch"))
        await sightings.flush()
        sightings.forget({"orders"})
    assert written == ["orders", "other", "orders"]


async def test_deleted_topics_free_their_share_of_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def record(_: str, uses: list[Sighting]) -> int:
        written.extend(sighting.name for sighting in uses)
        return 0

    # Given memory for a few uses, and users whose topics are all deleted again and again
    monkeypatch.setattr(driver, "MAX_BYTES", 1_000)
    monkeypatch.setattr(driver, "MAX_USERS", 3)
    sightings = UsageReporter(record)
    for n in range(50):
        sightings.saw(Saw(Identity(f"user-{n}", "app"), "topic", f"gone-{n}", "produce"))
        sightings.forget({f"gone-{n}"})
    # When another user uses a topic
    sightings.saw(Saw(Identity("ann", "app"), "topic", "orders", "produce"))
    await sightings.flush()
    # Then it is recorded: otherwise a move would leave this client in the origin
    assert written[-1] == "orders"


async def test_a_use_is_written_again_when_the_client_is_another_software_and_only_then() -> None:
    written: list[str | None] = []

    def record(_: str, uses: list[Sighting]) -> int:
        written.extend(sighting.use.software for sighting in uses)
        return 0

    sightings = UsageReporter(record)
    for software in ("java/1", "java/1", None, "java/2", "java/2", "java/1"):
        sightings.saw(Saw(Identity("ann", "app"), "topic", "orders", "fetch", software))
        await sightings.flush()
    assert written == ["java/1", "java/2", "java/1"]


class Store:
    """Keeps the written usage, and how often each user was written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, list[Sighting]]] = []
        self.error: Exception | None = None

    def record(self, user: str, uses: list[Sighting]) -> int:
        if self.error is not None:
            raise self.error
        self.written.append((user, uses))
        return 0

    @property
    def users(self) -> list[str]:
        return [user for user, _ in self.written]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the gateway's clock."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(clock, "now", lambda: seconds)

    set_clock(0.0)
    return set_clock


def use(user: str, topic: str = "orders") -> Saw:
    return Saw(Identity(user, "app"), "topic", topic, "fetch")


async def test_repeated_uses_are_written_some_hours_later_and_hold_up_no_report(
    at: Callable[[float], None],
) -> None:
    store = Store()
    sightings = UsageReporter(store.record)
    sightings.saw(use("ann"))
    await sightings.flush()
    first = store.written[0][1][0].use
    assert first.last == first.since
    # When it is seen again within some hours, nothing is written; later it is, by and by
    at(2 * 3600.0)
    sightings.saw(use("ann"))
    await sightings.once()
    assert store.users == ["ann"]
    at(3 * 3600.0)
    for user in ("ann", *(f"user-{n}" for n in range(5))):
        sightings._known[user, "app", "topic", "orders", "fetch"] = _Told(None, 0.0)
        sightings.saw(use(user))
    assert not sightings.pending
    await sightings.once()
    assert len(store.users) == 1 + AGAIN_AT_ONCE
    for _ in range(5):
        await sightings.once()
    assert sorted(store.users) == sorted(["ann", "ann", *(f"user-{n}" for n in range(5))])


async def test_usage_that_could_not_be_written_is_written_later(at: Callable[[float], None]) -> None:
    store = Store()
    sightings = UsageReporter(store.record)
    store.error = OSError("away")
    sightings.saw(use("ann"))
    assert not await sightings.flush()
    assert sightings.pending
    store.error = None
    assert await sightings.flush()
    assert store.users == ["ann"]


async def test_made_up_users_are_bounded_and_the_rest_is_logged(
    at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "MAX_USERS", 10)
    store = Store()
    sightings = UsageReporter(store.record)
    for n in range(50):
        sightings.saw(use(f"user-{n}"))
    await sightings.flush()
    assert len(store.users) == 10
    # A day later uses that were not seen again have made room
    at(25 * 3600.0)
    await sightings.once()
    sightings.saw(use("late"))
    await sightings.flush()
    assert store.users[-1] == "late"
    assert len([record for record in caplog.records if "users were seen within a day" in record.message]) == 1


async def test_a_user_without_room_in_the_store_is_logged_and_holds_up_nothing(
    at: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    store.error = TooManyUsersError("20000 users have usage")
    sightings = UsageReporter(store.record)
    sightings.saw(use("ann\nCRITICAL the cluster is lost"))
    assert await sightings.flush()
    assert not sightings.pending
    assert "is not recorded" in caplog.text
    assert "\nCRITICAL" not in caplog.text
