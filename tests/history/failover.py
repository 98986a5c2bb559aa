"""A topic whose cluster was killed, and that went on at its copy: a history that is sound."""

from ha_core.model import Extent, Tail, Topic
from stack.history.events import Acked, Assigned, ClientStarted, Committed, Delivered, Event, Sent
from stack.history.history import History, LogDump
from stack.history.lost_tails import ForcedLoss
from tests.history.world import TOPIC
from tests.kit.operations import a_tail

KILLED, CUT_AT = 200.0, 205.0
MIRRORED, EAST_END, CUT = 6, 10, 1000
"""East had ten records, the copy six. The last one was not acknowledged, and comes again at the cut."""
READER = "auditor"
EAST = {n: f"p-{n}" for n in range(EAST_END)} | {11: "p-9", 12: "p-10", 13: "p-11"}
"""After a marker: records copied to it when it was back."""
WEST = {1 + n: f"p-{n}" for n in range(MIRRORED)} | {8: "p-9", 9: "p-10", 10: "p-11"}
"""A copier's markers are at 0 and 7."""
LOSS = ForcedLoss(
    Topic(
        name=TOPIC,
        writer="west",
        partitions={
            0: (
                Extent(cluster="west", start=0, end=MIRRORED, base=1, writer_epoch=0, copied=True),
                Extent(cluster="west", start=CUT, base=8, writer_epoch=1),
            )
        },
    ),
    a_tail(
        TOPIC,
        partitions={
            0: Tail(mirrored=MIRRORED, client=MIRRORED, start=MIRRORED, end=EAST_END, records=EAST_END - MIRRORED)
        },
        counted="2026-11-23T10:01:00Z",
    ),
    cut_at=CUT_AT,
    commits_since=KILLED - 50,
)


def given(client: str, t: float, offset: int, number: int, group: str | None = None) -> Delivered:
    return Delivered(client, t, TOPIC, 0, offset, f"p-{number}", group)


def acked(number: int) -> Acked:
    """Nine by east, a second apart, three by west."""
    if number < EAST_END - 1:
        return Acked("p", 100.0 + number, TOPIC, 0, number, f"p-{number}")
    return Acked("p", 201.0 + number, TOPIC, 0, CUT + number - EAST_END + 1, f"p-{number}")


def read_from_the_beginning() -> list[Event]:
    old = [given(READER, 300.0 + n, n, n) for n in range(MIRRORED)]
    return [*old, *(given(READER, 310.0 + n, CUT + n, EAST_END - 1 + n) for n in range(3))]


def member() -> list[Event]:
    """It had read all of east, the record that came again too, and committed; the standby knew of the first five."""
    before: list[Event] = [given("m", 110.0 + n, n, n, "billing") for n in range(EAST_END)]
    assigned = [Assigned("m", t, ((TOPIC, 0),), "billing") for t in (109.0, 210.0)]
    commit, forgotten = (
        Committed("m", t, "billing", TOPIC, 0, offset) for t, offset in ((140.0, 5), (190.0, EAST_END))
    )
    again = given("m", 212.0, 5, 5, "billing")
    above_cut = [given("m", 213.0 + n, CUT + n, EAST_END - 1 + n, "billing") for n in range(3)]
    return [assigned[0], *before, commit, forgotten, assigned[1], again, *above_cut]


def recorded() -> History:
    writer = ClientStarted("p", 99.0, "producer", "test", (TOPIC,), idempotent=True, ordered=True, value_prefix="p-")
    sent = [Sent("p", 99.5, TOPIC, f"p-{n}") for n in range(12)]
    return History(
        {
            "p": (writer, *sent, *(acked(n) for n in range(12))),
            READER: (ClientStarted(READER, 299.0, "consumer", "test", (TOPIC,)), *read_from_the_beginning()),
            "m": (ClientStarted("m", 99.0, "consumer", "test", (TOPIC,), "billing"), *member()),
        },
        logs=(LogDump("east", TOPIC, 0, 0, 14, EAST), LogDump("west", TOPIC, 0, 0, 11, WEST)),
    )
