"""Topics that patterns choose, those of them that are linked now, and those that are left alone."""

import pytest

from ha_core.model import Crossing, Extent, FlowId, Lock, Mirror, MirrorPattern, RemoteTopicPortion, Topic, View
from ha_core.model.topic import Deletion
from ha_core.plan.mirror.patterns import (
    chooser,
    no_longer_chosen,
    shared_out,
    standing,
    would_link_again,
    written_by_flows,
)

ROUTE = ("east", "west")
WHEN = "2026-01-02T00:00:00Z"


def pattern(text: str, *exclude: str, source: str = "east", target: str = "west") -> MirrorPattern:
    key = MirrorPattern.key_of(text, source, target)
    return MirrorPattern(
        key=key, pattern=text, source=source, target=target, exclude=exclude, since=WHEN, by="ops", reason="a standby"
    )


def mirror(topic: str, source: str = "east", target: str = "west", by: str = "ops") -> Mirror:
    return Mirror.of(topic, source, target, "link-1", WHEN, by)


def mapped(name: str, *clusters: str) -> Topic:
    """Written in the last of `clusters`, and in the others before."""
    extents = [
        Extent(
            cluster=cluster,
            start=number * 10,
            end=None if number == len(clusters) - 1 else number * 10 + 10,
            base=0,
            writer_epoch=number,
        )
        for number, cluster in enumerate(clusters)
    ]
    return Topic(name=name, writer=clusters[-1], partitions={0: tuple(extents)})


def crossing(name: str) -> Topic:
    return mapped(name, "east").changed(crossing=Crossing(operation="migrate-1", state="open"))


def view(*documents: Topic | Mirror) -> View:
    return View(
        1,
        topics={one.name: one for one in documents if isinstance(one, Topic)},
        mirrors={one.key: one for one in documents if isinstance(one, Mirror)},
    )


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        (pattern("orders.*"), "orders.eu"),
        (pattern("orders.*"), "orders."),
        (pattern("*"), "anything"),
        (pattern("t?"), "t1"),
        (pattern("t[0-4]"), "t3"),
        (pattern("*", "test-*", "orders"), "orders2"),
    ],
)
def test_a_pattern_chooses_whole_names_as_a_shell_does(chosen: MirrorPattern, name: str) -> None:
    assert chooser(chosen)(name)


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        (pattern("orders.*"), "orders"),
        (pattern("orders.*"), "ordersxeu"),
        (pattern("orders.*"), "all.orders.eu"),
        (pattern("orders.*"), "Orders.eu"),
        (pattern("t[0-4]"), "t9"),
        (pattern("*", "test-*"), "test-1"),
        (pattern("orders.*", "orders.eu"), "orders.eu"),
    ],
)
def test_a_pattern_leaves_out_other_names_and_what_it_excludes(chosen: MirrorPattern, name: str) -> None:
    assert not chooser(chosen)(name)


def test_a_topic_of_several_patterns_is_the_longest_ones() -> None:
    all_topics, orders, left_out = pattern("*"), pattern("orders.*"), pattern("orders.eu*", "orders.eu")
    names = ["bills", "orders.eu", "orders.eu2", "orders.us"]

    shares = shared_out([all_topics, orders, left_out], names)

    assert shares == {
        all_topics.key: ["bills"],
        orders.key: ["orders.eu", "orders.us"],
        left_out.key: ["orders.eu2"],
    }


@pytest.mark.parametrize(
    ("documents", "locked", "state", "reason"),
    [
        # Nothing is known of a new topic.
        ((), False, "due", ""),
        # A link that was undone, or an unlinked topic, leaves the map.
        ((mapped("t", "east"),), False, "due", ""),
        ((mapped("t", "east"), mirror("t")), False, "linked", ""),
        # Its records of an earlier stay in the target do not matter here: the pre-flight judges them.
        ((mapped("t", "west", "east"),), False, "due", ""),
        ((mapped("t", "east"), mirror("t", "north")), False, "elsewhere", "it is mirrored to west from north"),
        # After a switch, its mirror turned round or not.
        (
            (mapped("t", "east", "west"), mirror("t", "west", "east")),
            False,
            "elsewhere",
            "it is written in west, and mirrored to east",
        ),
        ((mapped("t", "east", "west"),), False, "elsewhere", "it is written in west"),
        # A copy in the source.
        ((mapped("t", "north"), mirror("t", "north", "east")), False, "elsewhere", "it is written in north"),
        ((), True, "waits", "operation switch-1 works on it"),
        ((mapped("t", "east", "west"),), True, "waits", "operation switch-1 works on it"),
        ((mapped("t", "east"), mirror("t")), True, "linked", ""),
        ((crossing("t"),), False, "waits", "it migrates in operation migrate-1"),
        (
            (mapped("t", "east").changed(deletion=Deletion(operation="delete-1", since=WHEN)),),
            False,
            "waits",
            "it is being deleted",
        ),
        # The pre-flight says what is wrong with a damaged map.
        ((Topic(name="t", writer="east", partitions={0: ()}),), False, "due", ""),
    ],
)
def test_a_chosen_topic_is_linked_only_where_its_source_writes_it(
    documents: tuple[Topic | Mirror, ...], locked: bool, state: str, reason: str
) -> None:
    lock = Lock(key="topic:t", operation="switch-1", by="ops", since=WHEN)

    how = standing(view(*documents), {lock.key: lock} if locked else {}, ROUTE, "t", {})

    assert (how.state, how.reason) == (state, reason)


def test_a_topic_that_a_flow_writes_in_the_source_is_left_to_an_operator() -> None:
    flow = FlowId("A->B", "id-of-west", "id-of-east")
    known = View(1, remote_topics={"p": RemoteTopicPortion.of(flow, 0, {"A.t": "t"})})

    here, elsewhere, unknown = (
        written_by_flows(known, {id_, "id-of-west"}) for id_ in ("id-of-east", "id-of-north", "")
    )

    assert here == unknown == {"A.t": "A->B"}
    assert elsewhere == {}
    assert standing(known, {}, ROUTE, "A.t", here) == ("A.t", "elsewhere", "the flow A->B writes it")
    assert standing(known, {}, ROUTE, "A.t", elsewhere).state == "due"
    # And one that an operator has linked all the same is linked
    assert standing(view(mapped("A.t", "east"), mirror("A.t")), {}, ROUTE, "A.t", here).state == "linked"


def test_opposite_patterns_never_both_link_a_topic() -> None:
    there, back = ROUTE, ROUTE[::-1]
    for where in (("east",), ("west",), ("east", "west"), ("west", "east")):
        for mirrors in ((), (mirror("t"),), (mirror("t", "west", "east"),)):
            states = [
                standing(view(mapped("t", *where), *mirrors), {}, route, "t", {}).state for route in (there, back)
            ]
            assert states.count("due") <= 1, (where, mirrors)
            # And what is due is due where the topic is written
            for route, state in zip((there, back), states, strict=True):
                assert state != "due" or route[0] == where[-1]


def test_mirrors_of_topics_that_are_gone_or_not_chosen_any_more_are_told_and_no_others() -> None:
    orders, bills = pattern("orders.*", "orders.eu"), pattern("bills.*")
    mirrors = [
        mirror("orders.eu", by=orders.actor),
        mirror("orders.us", by=orders.actor),
        mirror("orders.gone", by=orders.actor),
        mirror("bills.eu", by=orders.actor),  # which another pattern chooses now
        mirror("orders.by-hand"),
        mirror("orders.turned", "west", "east", by=orders.actor),
    ]

    found = no_longer_chosen([orders, bills], mirrors, {"orders.eu", "orders.us", "bills.eu"})

    assert {key: [(one.topic, one.state) for one in some] for key, some in found.items()} == {
        orders.key: [("orders.eu", "unmatched"), ("orders.gone", "gone")]
    }


def test_patterns_leave_out_topics_whose_mirrors_are_ended() -> None:
    orders, everything, back = pattern("orders.*", "x"), pattern("*"), pattern("*", source="west", target="east")
    ended = [mirror("orders.eu"), mirror("bills")]

    changed = would_link_again([orders, everything, back], ended)

    assert [(one.key, one.exclude) for one in changed] == [
        (orders.key, ("x", "orders.eu")),
        (everything.key, ("bills", "orders.eu")),
    ]
    # And then they are chosen no longer
    assert would_link_again(changed, ended) == []
