"""A reader that stands still in one partition while its topic crosses over is found, and one that waits for nothing is
not."""

from itertools import count

import pytest

from stack.history.blackout import Move
from stack.history.checker import check
from stack.history.events import Acked, Assigned, ClientStarted, Delivered, Event, Sent
from stack.history.history import History
from stack.history.standstill import BOUND_MS, LongestStandstills, longest
from stack.placing import client_id_at

CROSSING = Move(110.0, 112.0)
EVERY_S = 0.1


def history(*late: tuple[int, float, float], silent: tuple[float, float] = (0, 0), again_at: float = 0) -> History:
    """Two partitions get a record each 100 ms for 20 s, and one reader is given each of them 50 ms later.

    :param late: (partition, from, until): what comes in between is given at its end.
    :param silent: from when to when partition 1 gets nothing.
    :param again_at: when the reader is assigned its partitions once more.
    """
    writer: list[Event] = [ClientStarted("w", 100.0, "producer", "model", ("orders",), value_prefix="w-")]
    given: list[tuple[float, Delivered]] = []
    numbers, offsets = count(), [count(), count()]
    for step in range(200):
        t = 100.0 + step * EVERY_S
        for partition in (0, 1):
            if partition == 1 and silent[0] <= t < silent[1]:
                continue
            value, offset = f"w-{next(numbers)}", next(offsets[partition])
            writer += [
                Sent("w", t, "orders", value, partition=partition),
                Acked("w", t, "orders", partition, offset, value),
            ]
            at = next((until for p, since, until in late if p == partition and since <= t < until), t + 0.05)
            given.append((at, Delivered("r", at, "orders", partition, offset, value, "g")))
    both = (("orders", 0), ("orders", 1))
    reader: list[Event] = [
        ClientStarted("r", 100.0, "consumer", "model", ("orders",), "g"),
        Assigned("r", 100.0, both, "g"),
    ]
    for t, event in sorted(given, key=lambda one: one[0]):
        if again_at and reader[-1].t < again_at <= t:
            reader.append(Assigned("r", again_at, both, "g"))
        reader.append(event)
    return History({"w": tuple(writer), "r": tuple(reader)})


def found(seen: History) -> list[tuple[str, str, int | None]]:
    result = check(seen, complete_readers=["g"], crossings=[CROSSING])
    return [(violation.kind, violation.about, violation.partition) for violation in result.violations]


def test_a_reader_that_goes_on_while_its_topic_crosses_over_passes() -> None:
    assert found(history()) == []


def test_a_reader_that_stalls_in_one_of_its_partitions_is_reported() -> None:
    # Given a reader whose other partition flows meanwhile, so that the client as a whole has no gap
    late = history((1, 111.0, 115.0))
    assert found(late) == [("stood still", "r", 1)]
    assert longest(late, [CROSSING]) == (
        LongestStandstills("r", "orders", 0, 50.0, 50.0),
        LongestStandstills("r", "orders", 1, 50.0, 4000.0),
    )


def test_a_reader_that_begins_to_stand_still_in_the_crossing_and_goes_on_after_it_is_found() -> None:
    assert found(history((0, 111.9, 118.0))) == [("stood still", "r", 0)]


def test_a_partition_that_gets_nothing_is_no_standstill() -> None:
    assert found(history(silent=(109.0, 118.0))) == []


def test_events_without_a_crossing_are_not_a_standstill() -> None:
    assert found(history((1, 102.0, 106.0))) == []


def test_a_rebalance_is_no_standstill() -> None:
    assert found(history((0, 110.5, 114.0), (1, 110.5, 114.0), again_at=113.0)) == []


def test_on_a_machine_where_readers_stand_still_anyway_as_much_is_let_pass_twice() -> None:
    late_before = (0, 102.0, 102.0 + 0.9 * BOUND_MS / 1000)
    assert found(history(late_before, (1, 111.0, 114.0))) == []
    assert found(history(late_before, (1, 111.0, 116.0))) == [("stood still", "r", 1)]


@pytest.mark.parametrize("gateway", ["gw-1", "gw-2", "gw-3"])
@pytest.mark.parametrize("user", [None, "billing-app"])
def test_a_client_id_is_found_that_leads_to_a_gateway(gateway: str, user: str | None) -> None:
    from gateway.process.peers import weight
    from ha_core.model import identify

    names = ("gw-1", "gw-2", "gw-3")
    chosen = client_id_at(gateway, names, "reader", user)
    assert chosen.startswith("reader")
    assert max(names, key=lambda one: weight(one, identify(user, chosen), "127.0.0.1")) == gateway


def test_a_gateway_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no gateway is called 'gw-9'; there is gw-1, gw-2"):
        client_id_at("gw-9", ("gw-1", "gw-2"), "reader")
