"""What clients use is recorded, whatever others make up."""

from __future__ import annotations

import asyncio

from gateway.driver.sightings import MAX_BYTES_OF_A_USER, Sightings
from gateway.session.commands import Saw
from ha_core.model import Identity
from ha_core.store.usage import Sighting


def test_a_user_who_makes_names_up_does_not_keep_what_others_use_from_being_recorded() -> None:
    async def scenario() -> None:
        written: dict[str, list[Sighting]] = {}

        def record(user: str, uses: list[Sighting]) -> int:
            written.setdefault(user, []).extend(uses)
            return 0

        sightings = Sightings(record)
        # Given a user who uses names without end
        for n in range(250_000):
            sightings.saw(Saw(Identity("greedy", "app"), "topic", f"topic-{n}", "fetch"))
        for n in range(1_000):
            sightings.saw(Saw(Identity("long", "app"), "topic", f"{n}" * 10_000, "fetch"))
        # When another one uses a topic
        sightings.saw(Saw(Identity("modest", "app"), "topic", "orders", "produce"))
        await sightings.flush()
        # Then that is recorded, and little of what was made up is kept
        assert [use.name for use in written["modest"]] == ["orders"]
        assert sum(len(use.name) for use in written["long"]) <= MAX_BYTES_OF_A_USER
        # And the first user's share was spent on what came first
        assert written["greedy"][0].name == "topic-0"

    asyncio.run(scenario())


def test_a_use_of_a_topic_that_was_deleted_and_created_again_is_recorded_anew() -> None:
    async def scenario() -> None:
        written: list[str] = []

        def record(_: str, uses: list[Sighting]) -> int:
            written.extend(one.name for one in uses)
            return 0

        sightings = Sightings(record)
        for _ in range(2):
            for topic in ("orders", "other"):
                sightings.saw(Saw(Identity("ann", "app"), "topic", topic, "fetch"))
            await sightings.flush()
            sightings.forget({"orders"})
        assert written == ["orders", "other", "orders"]

    asyncio.run(scenario())


def test_a_use_is_written_again_when_the_client_is_another_software_and_only_then() -> None:
    async def scenario() -> None:
        written: list[str | None] = []

        def record(_: str, uses: list[Sighting]) -> int:
            written.extend(one.use.software for one in uses)
            return 0

        sightings = Sightings(record)
        for software in ("java/1", "java/1", None, "java/2", "java/2", "java/1"):
            sightings.saw(Saw(Identity("ann", "app"), "topic", "orders", "fetch", software))
        await sightings.flush()
        assert written == ["java/1", "java/2", "java/1"]

    asyncio.run(scenario())
