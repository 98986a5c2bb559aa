"""Recording facts, returned clusters and aging without any answer: everything stays, with the reason."""

import pytest

from ha_core.model import KnownGroup, KnownTopic, Topic
from ha_core.model.extent import append, identity
from ha_core.operations.absence.returned import check_origins
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.clusters.masking import mask_cluster
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.copies.syncing.passes import sync_mirrors
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.aging import age
from ha_core.operations.proposal.requests import chosen_topics, fault_request
from ha_core.plan.absence.returned import dead_at_the_cut
from ha_core.store.commits import StateChange

AT = "2026-11-21T10:00:00Z"
GIVEN_UP = Topic(name="orders", writer="west", partitions={0: append(identity("east"), "west", 10**6, 0, known_end=40)})
SEEN = KnownTopic(cluster="east", name="orders", at=AT, partitions=1, replication=1, ends={0: 40})


@pytest.fixture
def given_up(environment: Environment) -> Environment:
    """East was dead at the cut of `orders`, and no cluster answers."""
    environment.store.commit(StateChange(change_id="map", puts=(GIVEN_UP,), expected={(Topic, "orders"): None}))
    return environment


def test_recording_an_unreachable_cluster_keeps_the_facts_known_before(environment: Environment) -> None:
    environment.store.keep_known(KnownTopic, "east", [SEEN])

    looks = record(environment, ["east"])

    assert looks[0].error
    assert "Facts recorded before stay" in looks[0].words
    assert environment.store.known(KnownTopic, "east") == {"orders": SEEN}
    with pytest.raises(RefusedError, match="'north'"):
        record(environment, ["north"])


def test_the_check_of_origins_changes_nothing_for_an_unreachable_or_masked_cluster(given_up: Environment) -> None:
    # When origins are checked while one is away
    before = given_up.store.load()
    away = check_origins(given_up).away["east"]
    # Then that is said, and nothing has changed
    assert "cannot be reached" in away
    assert given_up.store.load() == before
    # When it is masked
    mask_cluster(given_up, "east", "rack fire")
    why = check_origins(given_up).away["east"]
    # Then unmasking is suggested, and never giving it up
    assert "masked: rack fire" in why
    assert "switchyard unmask east" in why
    assert "give-up" not in why
    assert "unmask east" in next(dead_at_the_cut(GIVEN_UP, given_up.store.load().masked))


def test_an_extent_does_not_age_while_its_end_is_unconfirmed_and_groups_cannot_be_asked(given_up: Environment) -> None:
    before = given_up.store.load()

    (old,) = age(given_up, delete_origin=True).extents

    assert [block.reason for block in old.blocks] == ["unconfirmed", "unasked", "unasked", "unasked"]
    assert given_up.store.load() == before


def test_aging_counts_the_last_recorded_commits_of_groups_in_an_unreachable_cluster(given_up: Environment) -> None:
    group = KnownGroup(cluster="west", name="billing", at=AT, state="Empty", offsets={"orders": {0: 7}})
    given_up.store.keep_known(KnownGroup, "west", [group])
    given_up.store.keep_known(KnownTopic, "east", [SEEN])

    (old,) = age(given_up).extents

    assert [block.reason for block in old.blocks] == ["unconfirmed", "unasked", "dead"]
    assert "group billing at offset 7" in old.blocks[-1].text
    assert "as it was last seen; west does not answer: bring it back" in old.blocks[-1].text


def test_topic_patterns_match_topics_written_or_last_seen_in_the_dead_cluster(given_up: Environment) -> None:
    others = [SEEN.model_copy(update={"name": name}) for name in ("bills", "bids")]
    given_up.store.keep_known(KnownTopic, "east", [SEEN, *others])
    view = given_up.store.load()

    assert chosen_topics(given_up, view, ["*"], "east") == ("bids", "bills")
    assert chosen_topics(given_up, view, ["o*", "other"], "west") == ("orders", "other")
    with pytest.raises(RefusedError, match="matches no topic"):
        chosen_topics(given_up, view, ["x*"], "east")


def test_a_forced_request_takes_the_groups_of_every_user_bound_to_the_dead_cluster(environment: Environment) -> None:
    # Given a dead cluster, a group of it that two users have, and one without users
    said: list[str] = []
    environment.progress = said.append
    environment.store.keep_known(KnownTopic, "east", [SEEN])
    groups = [KnownGroup(cluster="east", name=n, at=AT, offsets={"orders": {0: 7}}) for n in ("billing", "orphan")]
    environment.store.keep_known(KnownGroup, "east", groups)
    declare_usage(environment, "ann", ("orders",), ("billing",))
    declare_usage(environment, "bob+x", ("orders",), ("billing",))
    # When its topic is to move with its groups
    request = fault_request(environment, ["orders"], "east", "west", unread="wait", reason="rack fire", groups=True)
    # Then the first is taken along for both users, and the other one is named
    assert request.scope.topics == ("orders",)
    assert request.scope.user_groups == (("ann", "billing"), ("bob+x", "billing"))
    assert (request.mode, request.include_other_users) == ("forced", True)
    assert any("group orphan stays" in line for line in said)


def test_bringing_mirrors_in_sync_names_the_clusters_in_which_rules_of_ended_mirrors_may_be_left(
    environment: Environment,
) -> None:
    findings = [finding for part in sync_mirrors(environment, ()).parts for finding in part.findings]
    assert sorted(finding.about for finding in findings) == ["cluster east", "cluster west"]
    assert all("is not known: it does not answer now" in finding.reason for finding in findings)
    assert not any(finding.stop for finding in findings)
