"""The remote topics of flows: added and removed by workers, in portions, as revisions that gateways follow."""

import pytest

from ha_core.model import FlowId, RemoteTopicPortion, UnreadableDocumentError
from ha_core.model.remote_topics import MAX_IN_PORTION
from ha_core.store import remote_topics
from ha_core.store.errors import TooManyRemoteTopicsError
from ha_core.store.remote_topics import FlowTopics, with_topics, without_topics

from .sessions import Session

FLOW = FlowId("A->B", "source-id", "4L6g3nShT-eMCtK--X86sw")
ORDERS = {"A.orders": "orders"}


def flow_topics(topics: dict[str, str], flow: FlowId = FLOW) -> FlowTopics:
    return FlowTopics(flow, topics)


def many(count: int) -> dict[str, str]:
    return {f"A.t-{number:05d}": f"t-{number:05d}" for number in range(count)}


def portion(number: int, topics: dict[str, str]) -> RemoteTopicPortion:
    return RemoteTopicPortion.of(FLOW, number, topics)


def test_a_flows_topics_are_written_as_a_revision_that_gateways_follow(session: Session, other: Session) -> None:
    # When
    revision = session.store.write_remote_topics(flow_topics(ORDERS))
    # Then
    view = other.store.load()
    (document,) = view.remote_topics.values()
    assert view.revision == revision
    assert FlowId(document.flow, document.source_id, document.target_id) == FLOW
    assert document.topics == ORDERS


def test_topics_that_another_worker_has_added_stay(session: Session, other: Session) -> None:
    session.store.write_remote_topics(flow_topics(ORDERS))

    other.store.write_remote_topics(flow_topics({"A.bills": "bills"}))

    assert session.store.remote_topics(FLOW) == {"A.bills": "bills", "A.orders": "orders"}


def test_flows_of_other_names_and_of_other_clusters_are_kept_apart(session: Session) -> None:
    store = session.store
    store.write_remote_topics(flow_topics(ORDERS))
    others = (FLOW._replace(name="A->B:0"), FLOW._replace(source_id="other"), FLOW._replace(target_id="other"))
    for other in others:
        store.write_remote_topics(flow_topics(ORDERS, other))

    store.remove_remote_topics(FLOW)

    assert store.remote_topics(FLOW) == {}
    assert [store.remote_topics(other) for other in others] == [ORDERS] * 3


def test_a_repeated_write_makes_no_revision_and_returns_one_that_has_the_topics(session: Session) -> None:
    written = session.store.write_remote_topics(flow_topics(ORDERS))

    assert session.store.write_remote_topics(flow_topics(ORDERS)) == written
    assert session.store.load().revision == written


@pytest.mark.parametrize("made", [True, False])
def test_a_write_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.lose_next_reply(made)

    session.store.write_remote_topics(flow_topics(ORDERS))

    assert session.losses_left() == 0
    assert session.store.remote_topics(FLOW) == ORDERS


def test_single_topics_and_whole_flows_are_removed(session: Session) -> None:
    store = session.store
    store.write_remote_topics(flow_topics({**ORDERS, "A.bills": "bills"}))

    store.remove_remote_topics(FLOW, ["A.orders", "A.never"])
    assert store.remote_topics(FLOW) == {"A.bills": "bills"}

    revision = store.remove_remote_topics(FLOW)
    assert store.load().remote_topics == {}
    assert store.remove_remote_topics(FLOW) == revision


def test_thousands_of_topics_are_written_in_portions_and_several_revisions(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_topics, "BATCH_BYTES", 5_000)

    revision = session.store.write_remote_topics(flow_topics(many(3_000)))

    view = session.store.load()
    assert len(view.remote_topics) == 6
    assert view.revision == revision > 1
    assert session.store.remote_topics(FLOW) == many(3_000)


def test_an_unreadable_portion_stops_the_worker_and_names_the_way_out(session: Session) -> None:
    session.store.write_remote_topics(flow_topics(ORDERS))
    (path,) = session.store._portions_of(FLOW)
    session.plant(path, b"{broken")

    with pytest.raises(UnreadableDocumentError, match="clients can write to the flow's remote topics"):
        session.store.write_remote_topics(flow_topics({"A.bills": "bills"}))


def test_a_new_topic_changes_one_portion_only() -> None:
    stored = [portion(0, many(MAX_IN_PORTION)), portion(1, ORDERS)]

    (changed,) = with_topics(stored, flow_topics({"A.bills": "bills"}))

    assert changed == portion(1, {"A.bills": "bills", **ORDERS})


def test_a_new_topic_takes_the_room_of_a_removed_one() -> None:
    few = dict(list(many(MAX_IN_PORTION).items())[1:])

    (changed,) = with_topics([portion(1, ORDERS), portion(0, few)], flow_topics({"A.bills": "bills"}))

    assert changed == portion(0, {**few, "A.bills": "bills"})


def test_a_changed_fact_of_the_flow_changes_all_its_portions() -> None:
    stored = [portion(0, many(MAX_IN_PORTION)), portion(1, ORDERS)]

    changed = with_topics(stored, FlowTopics(FLOW, {}, readers_of_source=False))

    assert [(each.portion, each.readers_of_source) for each in changed] == [(0, False), (1, False)]


def test_a_flow_with_too_many_topics_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_topics, "MAX_REMOTE_TOPICS", 2)
    assert with_topics([portion(0, ORDERS)], flow_topics({"A.bills": "bills", **ORDERS}))

    with pytest.raises(TooManyRemoteTopicsError, match=r"flow A->B would write 3 topics, and gateways .* 2 at most"):
        with_topics([portion(0, ORDERS)], flow_topics({"A.bills": "bills", "A.more": "more"}))


def test_an_emptied_portion_is_deleted() -> None:
    stored = [portion(0, ORDERS), portion(1, {"A.bills": "bills"})]

    assert without_topics(stored, ["A.bills"]) == [portion(1, {})]
    assert without_topics(stored, None) == [portion(0, {}), portion(1, {})]
    assert without_topics(stored, ["A.never"]) == []
