"""The checker passes clean histories, and finds and names every planted fault."""

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stack.history.checker import Result, check
from stack.history.events import Acked, Assigned, ClientStarted, Delivered, Event, Failed, Positioned, Sent
from stack.history.history import Fault, History, HistoryCut, LogDump
from tests.history.world import TOPIC, World, rewrite, worlds

READERS = ("billing", "audit")


def run(history: History) -> Result:
    return check(history, complete_readers=READERS)


def kinds(result: Result) -> set[tuple[str, str | None]]:
    return {(violation.kind, violation.value) for violation in result.violations}


def deliveries(history: History, client: str) -> list[Delivered]:
    return [event for event in history.clients[client] if isinstance(event, Delivered)]


@st.composite
def planted(draw: st.DrawFn, producer: str = "", logs: bool | None = None) -> tuple[History, Delivered]:
    """A clean history without markers, and one delivery to the reader of `audit` with others of its partition around.

    The delivered record is of `producer` where that is given; `logs` says whether the clusters were dumped.
    """
    world = draw(worlds(transactions=False, least_sent=6))
    history = world.history(logs=draw(st.booleans()) if logs is None else logs)
    events = deliveries(history, "audit-reader-1")
    middle = [
        event
        for before, event, after in zip(events, events[1:], events[2:], strict=False)
        if before.partition == event.partition == after.partition and event.value.startswith(producer)
    ]
    assume(middle)
    return history, draw(st.sampled_from(middle))


@given(worlds(), st.booleans())
def test_a_clean_history_passes(world: World, logs: bool) -> None:
    result = run(world.history(logs=logs))
    assert result.violations == ()
    assert result.lost == result.doubled == 0


@given(planted())
def test_a_record_that_a_group_never_got_is_lost_and_a_gap(case: tuple[History, Delivered]) -> None:
    history, event = case
    result = run(rewrite(history, event.client, event))
    assert ("lost", event.value) in kinds(result)
    assert any(v.kind == "gap" and event.offset in v.offsets for v in result.violations)
    assert result.lost == 1


@given(planted(logs=True))
def test_an_acknowledged_record_in_no_log_is_lost(case: tuple[History, Delivered]) -> None:
    history, event = case
    dumps = tuple(
        replace(dump, records={at: value for at, value in dump.records.items() if value != event.value})
        for dump in history.logs
    )
    result = run(replace(history, logs=dumps))
    assert any((v.kind, v.about, v.value) == ("lost", "log", event.value) for v in result.violations)


@given(planted())
def test_a_record_delivered_twice_is_doubled(case: tuple[History, Delivered]) -> None:
    history, event = case
    result = run(rewrite(history, event.client, event, event, event))
    assert ("doubled", event.value) in kinds(result)
    assert ("went back", event.value) in kinds(result)
    assert result.doubled == 1


@given(planted())
def test_a_record_delivered_at_two_offsets_is_doubled_and_renumbered(case: tuple[History, Delivered]) -> None:
    history, event = case
    far = replace(event, offset=event.offset + 5_000_000)
    last = deliveries(history, event.client)[-1]
    assume(last.partition != event.partition)
    result = run(rewrite(history, event.client, event, event, far))
    assert ("doubled", event.value) in kinds(result)
    assert ("renumbered", event.value) in kinds(result)


@given(planted("java-", logs=True))
def test_a_second_copy_in_the_log_by_an_idempotent_producer_is_doubled(case: tuple[History, Delivered]) -> None:
    history, event = case
    result = run(copied(history, event))
    assert any((v.kind, v.about, v.value) == ("doubled", "log", event.value) for v in result.violations)


@pytest.mark.parametrize("overlaps", [True, False])
@given(case=planted("plain-", logs=True))
def test_a_second_copy_by_a_plain_producer_is_excused_only_by_a_fault_during_its_flight(
    case: tuple[History, Delivered], overlaps: bool
) -> None:
    history, event = case
    sent = next(e.t for e in history.clients["plain"] if isinstance(e, Sent) and e.value == event.value)
    fault = Fault(sent - 1, sent, "gateway killed") if overlaps else Fault(sent - 2, sent - 1, "gateway killed")
    result = run(copied(history, event).with_evidence(faults=[fault]))
    assert (("doubled", event.value) in kinds(result)) is not overlaps
    assert result.excused == overlaps


def copied(history: History, event: Delivered) -> History:
    """The writer's log has one more record: the event's value again, not read yet."""
    spot = (event.topic, event.partition)
    cuts = [cut for cut in history.cuts if (cut.topic, cut.partition) == spot]
    writer = cuts[-1].target if cuts else "east"
    dumps = tuple(
        replace(dump, end=dump.end + 1, records={**dump.records, dump.end: event.value})
        if (dump.cluster, dump.topic, dump.partition) == (writer, *spot)
        else dump
        for dump in history.logs
    )
    return replace(history, logs=dumps)


@given(planted("java-"))
def test_two_records_that_changed_places_are_disordered(case: tuple[History, Delivered]) -> None:
    # Given a history in which two records of a producer have changed places
    history, event = case
    other = next(
        (
            e
            for e in deliveries(history, event.client)
            if e.partition == event.partition and e.offset > event.offset and e.value.startswith("java-")
        ),
        None,
    )
    assume(other is not None)
    assert other is not None
    swap = {event.value: other.value, other.value: event.value}
    # When it is checked
    result = run(renamed(history, swap))
    # Then that is a disorder, and nothing else
    assert {kind for kind, _ in kinds(result)} == {"disordered"}


def renamed(history: History, swap: dict[str, str]) -> History:
    """Everybody, logs included, saw the swapped values where the others were."""
    clients = {
        name: tuple(
            replace(e, value=swap.get(e.value, e.value)) if isinstance(e, Delivered | Acked) else e for e in events
        )
        for name, events in history.clients.items()
    }
    dumps = tuple(
        replace(dump, records={at: swap.get(value, value) for at, value in dump.records.items()})
        for dump in history.logs
    )
    return replace(history, clients=clients, logs=dumps)


@given(planted())
def test_wrong_acknowledged_offsets_are_renumbered_and_missing_ones_are_not(case: tuple[History, Delivered]) -> None:
    # Given a producer whose library counts on from -1, because a batch was answered without an offset
    history, event = case
    client = next(e.client for es in history.clients.values() for e in es if isinstance(e, Acked))
    acks = [e for e in history.clients[client] if isinstance(e, Acked) and e.partition == event.partition]
    assume(len(acks) > 2)
    batch = {ack.value: number - 1 for number, ack in enumerate(acks[-3:])}
    assume(any(ack.offset != batch[ack.value] >= 0 for ack in acks[-3:]))
    events = tuple(
        replace(e, offset=batch[e.value]) if isinstance(e, Acked) and e.value in batch else e
        for e in history.clients[client]
    )
    # When the history is checked
    result = run(replace(history, clients={**history.clients, client: events}))
    # Then each wrong offset is a violation, and a missing one is not
    renumbered = {value for kind, value in kinds(result) if kind == "renumbered"}
    assert renumbered >= {ack.value for ack in acks[-3:] if ack.offset != batch[ack.value] >= 0}
    assert acks[-3].value not in renumbered


@given(planted())
def test_offsets_that_differ_from_the_acknowledged_ones_are_renumbered(case: tuple[History, Delivered]) -> None:
    # Given a reader whose offsets are shifted from some record on
    history, event = case
    events = tuple(
        replace(e, offset=e.offset + 7_000_000)
        if isinstance(e, Delivered) and e.partition == event.partition and e.offset >= event.offset
        else e
        for e in history.clients[event.client]
    )
    # When the history is checked
    result = run(replace(history, clients={**history.clients, event.client: events}))
    # Then the record is renumbered
    assert ("renumbered", event.value) in kinds(result)


@given(planted())
def test_an_offset_with_two_records_is_overwritten(case: tuple[History, Delivered]) -> None:
    history, event = case
    result = run(rewrite(history, event.client, event, replace(event, value="java-0")))
    assume(event.value != "java-0")
    assert any(v.kind == "overwritten" and v.offsets == (event.offset,) for v in result.violations)


@given(worlds(transactions=False, least_sent=3))
def test_a_record_appended_to_the_origin_after_the_cut_is_a_late_append(world: World) -> None:
    # Given a record in the origin above its cut
    origin = world.writer
    world.cut("north" if origin != "north" else "east")
    history = world.history()
    late = LogDump(origin, TOPIC, 0, 0, 10**6, {world.ends[origin, 0]: "java-0"})
    dumps = tuple(
        replace(dump, records={**dump.records, **late.records})
        if (dump.cluster, dump.partition) == (origin, 0)
        else dump
        for dump in history.logs
    )
    # When the history is checked
    result = run(replace(history, logs=dumps))
    # Then it is a late append
    assert any((v.kind, v.about) == ("late append", origin) for v in result.violations)
    # But where the log ran into the cut by itself, it is surplus
    ran_into = replace(history, logs=dumps, cuts=tuple(replace(cut, ahead=True) for cut in history.cuts))
    assert "late append" not in {v.kind for v in run(ran_into).violations}


@pytest.mark.parametrize(
    ("what", "seen_as", "sound"),
    [
        ("pause gateway/1", None, True),
        ("pause gateway/1", "acknowledged", False),
        ("pause gateway/1", "delivered", False),
        ("kill cluster/east", None, False),
    ],
)
def test_an_unacknowledged_late_append_is_excused_if_a_gateway_was_stopped(
    what: str, seen_as: str | None, sound: bool
) -> None:
    # Given a record in flight when a process was stopped, in the origin above its cut
    where = HistoryCut(TOPIC, 0, 2, "east", "west", origin_end=2, target_base=0)
    producer = ClientStarted("p", 0.0, "producer", "any", (TOPIC,))
    known: list[Event] = [producer, *(Sent("p", float(n), TOPIC, f"p-{n}") for n in range(4))]
    known += [Acked("p", 10.0, TOPIC, 0, n, f"p-{n}") for n in (0, 1)]
    # The next record took its place in the target, or a client saw it there
    known += [Acked("p", 11.0, TOPIC, 0, 2, "p-2" if seen_as == "acknowledged" else "p-3")]
    clients = {"p": tuple(known)}
    if seen_as == "delivered":
        clients["r"] = (
            ClientStarted("r", 0.0, "consumer", "any", (TOPIC,), group="g"),
            Delivered("r", 12.0, TOPIC, 0, 2, "p-2", "g"),
        )
    logs = (
        LogDump("east", TOPIC, 0, 0, 3, {0: "p-0", 1: "p-1", 2: "p-2"}),
        LogDump("west", TOPIC, 0, 0, 1, {0: "p-3"}),
    )
    # When the history is checked
    result = check(History(clients, (where,), (Fault(2.5, 9.0, what),), logs))
    # Then it is excused if no client can have known it
    assert ("late append" not in {v.kind for v in result.violations}, result.excused) == (sound, int(sound))


@given(planted())
def test_a_consumer_that_goes_back_without_a_seek_went_back(case: tuple[History, Delivered]) -> None:
    history, event = case
    events = deliveries(history, event.client)
    after = events[events.index(event) + 1]
    result = run(rewrite(rewrite(history, event.client, after), event.client, event, after, event))
    assert ("went back", event.value) in kinds(result)


@given(planted())
def test_a_record_that_was_never_sent_is_a_phantom(case: tuple[History, Delivered]) -> None:
    history, event = case
    result = run(rewrite(history, event.client, event, replace(event, value="stranger-1")))
    assert ("phantom", "stranger-1") in kinds(result)


@given(planted())
def test_a_delivered_record_that_its_producer_saw_definitely_fail_is_a_phantom(
    case: tuple[History, Delivered],
) -> None:
    history, event = case
    producer = event.value.rsplit("-", 1)[0]
    ack = next(e for e in history.clients[producer] if isinstance(e, Acked) and e.value == event.value)
    failed = Failed(producer, ack.t, TOPIC, event.value, definite=True, error="MSG_SIZE_TOO_LARGE")
    assert ("phantom", event.value) in kinds(run(rewrite(history, producer, ack, failed)))


def test_a_record_that_failed_with_unknown_outcome_may_be_delivered() -> None:
    # Given a producer that got a timeout, and readers that got the record
    world = World(random.Random(1), partitions=1)
    world.producer("java")
    world.produce("java", 3)
    for group in READERS:
        world.consume(group)
    history = world.history()
    ack = next(e for e in history.clients["java"] if isinstance(e, Acked))
    failed = Failed("java", ack.t, TOPIC, ack.value, definite=False, error="timed out")
    # When the history is checked
    # Then it is sound
    assert run(rewrite(history, "java", ack, failed)).sound


def one_group_with_two_members(lag: int) -> tuple[History, list[Delivered]]:
    """Records 0 to 5; the second member is given the last `lag` of the first one's four again."""
    world = World(random.Random(3), partitions=1)
    world.producer("java")
    world.produce("java", 6)

    class FourFirst(random.Random):
        def randint(self, a: int, b: int) -> int:
            return min(b, 4)

    world.random = FourFirst()
    world.consume("billing", members=2, lag=lag)
    history = world.history()
    return history, deliveries(history, "billing-reader-2")


def test_a_new_member_may_be_given_uncommitted_records_again() -> None:
    history, second = one_group_with_two_members(lag=2)
    assert [event.offset for event in second] == [2, 3, 4, 5]
    result = check(history, complete_readers=["billing"])
    assert result.sound
    assert result.repeated == 2


def test_a_repeated_record_is_redelivered_when_no_redelivery_is_allowed() -> None:
    history, _ = one_group_with_two_members(lag=2)
    result = check(history, complete_readers=["billing"], redelivery="never")
    assert kinds(result) == {("redelivered", "java-2"), ("redelivered", "java-3")}
    assert result.doubled == 2


def test_a_record_below_the_committed_offset_given_to_a_new_member_is_redelivered() -> None:
    history, second = one_group_with_two_members(lag=0)
    assigned = next(e for e in history.clients["billing-reader-2"] if isinstance(e, Assigned))
    again = replace(second[0], offset=3, value="java-3", t=assigned.t + 0.001)
    planted_history = rewrite(history, "billing-reader-2", assigned, assigned, again)
    assert ("redelivered", "java-3") in kinds(check(planted_history, complete_readers=["billing"]))


def test_records_may_be_given_again_after_a_seek() -> None:
    history, second = one_group_with_two_members(lag=0)
    seek = Positioned("billing-reader-2", second[-1].t + 0.001, TOPIC, 0, "offset 4")
    again = replace(second[0], t=seek.t + 0.001)
    planted_history = rewrite(history, "billing-reader-2", second[-1], second[-1], seek, again)
    assert check(planted_history, redelivery="never").sound


def with_transactions(commit: bool) -> World:
    world = World(random.Random(5), partitions=1)
    world.producer("java")
    world.producer("tx")
    world.produce("java", 1)
    world.produce("tx", 2, transaction=1, commit=commit)
    world.produce("java", 1)
    return world


def test_an_aborted_record_given_to_a_read_committed_reader_is_a_violation() -> None:
    world = with_transactions(commit=False)
    world.consume("audit", isolation="read_committed")
    history = world.history()
    last = deliveries(history, "audit-reader-1")[-1]
    dirty = replace(last, offset=1, value="tx-0", t=last.t - 0.001)
    planted_history = rewrite(history, last.client, last, dirty, last)
    assert ("aborted delivered", "tx-0") in kinds(check(planted_history))


def test_a_committed_record_that_a_read_committed_reader_skips_is_lost_and_a_gap() -> None:
    world = with_transactions(commit=True)
    world.consume("audit", isolation="read_committed")
    history = world.history()
    missed = next(e for e in deliveries(history, "audit-reader-1") if e.value == "tx-1")
    result = check(rewrite(history, missed.client, missed), complete_readers=["audit"])
    assert {kind for kind, _ in kinds(result)} == {"lost", "gap"}


def test_a_reader_that_the_history_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="'nobody'"):
        check(World(None).history(), complete_readers=["nobody"])  # type: ignore[arg-type]
