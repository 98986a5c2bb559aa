"""Quotas of the platform in the tree: written together with how far they are published, by one process at a time."""

import json

import pytest

from ha_core.model.quota import DEFAULT, Limits, QuotaEntity, QuotaKind
from ha_core.store.errors import OvertakenError, QuotaPublishedError
from ha_core.store.quotas import QuotasFound
from ha_core.store.tree import Create

from .sessions import Session

BYTES: Limits = {QuotaKind.PRODUCE: 1024.0, QuotaKind.FETCH: 2048.0}
LESS: Limits = {QuotaKind.PRODUCE: 1.0}
ENTITIES = (
    QuotaEntity("alice", "app"),
    QuotaEntity("alice"),
    QuotaEntity("alice", None, "orders"),
    QuotaEntity(DEFAULT),
    QuotaEntity(None, "tool"),
)


def standing(quotas: QuotasFound) -> dict[QuotaEntity | str, tuple[Limits, bool]]:
    return {
        quota.name if quota.entity is None else quota.entity: (quota.limits, quota.published)
        for quota in quotas.readable.values()
    }


def test_quotas_with_nested_paths_are_published_together_and_noted(session: Session) -> None:
    first = session.store.publication()
    assert (first.through_us, first.by) == (0, "")

    session.store.publish(first, 5, "here", [(entity, BYTES) for entity in ENTITIES])

    assert standing(session.store.quotas()) == dict.fromkeys(ENTITIES, (BYTES, True))
    assert len(session.store.tree.children("/config/changes")) == len(ENTITIES)
    assert session.store.publication()[:2] == (5, "here")


def test_a_publisher_continues_from_its_last_write_and_removes_quotas_that_are_gone(session: Session) -> None:
    after = session.store.publish(session.store.publication(), 5, "here", [(entity, BYTES) for entity in ENTITIES])

    session.store.publish(after, 6, "here", [(entity, {}) for entity in ENTITIES])

    assert standing(session.store.quotas()) == {}
    assert session.store.publication().through_us == 6


def test_a_publisher_that_was_overtaken_writes_nothing(session: Session, other: Session) -> None:
    # Given
    early = session.store.publication()
    newer = other.store.publish(other.store.publication(), 6, "there", [(QuotaEntity("alice"), BYTES)])
    # When
    with pytest.raises(OvertakenError):
        session.store.publish(early, 5, "here", [(QuotaEntity("alice"), LESS), (QuotaEntity("bob"), LESS)])
    # Then nothing of it is written, and the other publisher continues
    assert standing(session.store.quotas()) == {QuotaEntity("alice"): (BYTES, True)}
    other.store.publish(newer, 7, "there", [(QuotaEntity("bob"), BYTES)])
    assert session.store.publication()[:2] == (7, "there")


def test_a_published_quota_is_changed_only_by_the_platform(session: Session) -> None:
    alice = QuotaEntity("alice")
    session.store.publish(session.store.publication(), 5, "here", [(alice, BYTES)])

    for change in ({QuotaKind.FETCH: 5.0}, dict.fromkeys(QuotaKind)):
        with pytest.raises(QuotaPublishedError, match="user 'alice' is one of the platform"):
            session.store.change_quota(alice, change)

    assert session.store.change_quota(alice, BYTES) == BYTES
    assert standing(session.store.quotas()) == {alice: (BYTES, True)}


def test_a_quota_of_another_writer_is_taken_over(session: Session) -> None:
    alice = QuotaEntity("alice")
    session.store.change_quota(alice, BYTES)
    assert standing(session.store.quotas()) == {alice: (BYTES, False)}

    session.store.publish(session.store.publication(), 5, "here", [(alice, LESS)])

    assert standing(session.store.quotas()) == {alice: (LESS, True)}


def test_an_unreadable_publication_is_written_again(session: Session) -> None:
    session.store.tree.write([Create("/quota_publication", b"\xff")])

    session.store.publish(session.store.publication(), 5, "here", [])

    node = session.store.tree.get("/quota_publication")
    assert node is not None
    assert json.loads(node.data) == {"through_us": 5, "by": "here"}
