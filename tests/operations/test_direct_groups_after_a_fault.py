"""The source of a mirror dies: direct groups go on in the standby by what was last known, before and after a switch."""

from collections.abc import Iterator

import pytest

from ha_core.operations.access.carrying_groups import carry_group
from ha_core.operations.access.direct_groups import add_direct_groups
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.copies.syncing.passes import sync_mirrors
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from stack.harness import Stack
from tests.kit.moving import a_forced_move, moved
from tests.kit.stacks import own_stack
from tests.operations.past_gateways import Read, commit, committed, read, taken_over, transactional
from tests.operations.real_clusters import fill, stored_operation, stored_topic

pytestmark = pytest.mark.stack

stack = own_stack(gateways=0)
SYNCED, SWITCHED = "g-synced", "g-switched"


@pytest.fixture(scope="module")
def environment(stack: Stack) -> Iterator[Environment]:
    with connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator") as opened:
        yield opened


class Dead(dict[str, list[Read]]):
    """Topic → the records of its source, which is dead."""


@pytest.fixture(scope="module")
def dead(stack: Stack, environment: Environment) -> Dead:
    """East is dead: its groups were last known two records before the ends, and nothing of them was brought over."""
    topics = [transactional(environment), taken_over(environment)]
    add_direct_groups(environment, ["g-*"], "they read past the gateways")
    sources = {topic: read(environment, "east", topic) for topic in topics}
    for topic, source in sources.items():
        for group in (SYNCED, SWITCHED):
            commit(environment, "east", group, topic, source[-2].offset)
    record(environment, ["east"])
    stack.kill("cluster/east")
    return Dead(sources)


def test_a_sync_without_the_source_translates_the_last_known_commits(environment: Environment, dead: Dead) -> None:
    # When mirrors are synced while their source is away
    found = sync_mirrors(environment, [*dead])
    # Then that waits for an operator, and direct groups go on in the standby with their next records all the same
    assert "cluster east" in {finding.about for finding in found.stops}
    for topic, source in dead.items():
        got = read(environment, "west", topic, SYNCED)
        assert [one.value for one in got] == [one.value for one in source[-2:]], topic


def test_a_forced_switch_gives_direct_groups_their_places_by_the_last_known_commits(
    environment: Environment, dead: Dead
) -> None:
    for topic, source in dead.items():
        # When the topic is switched to its copy by force, and clients write there
        report = moved(environment, a_forced_move(topic))
        fill(environment, "west", topic, 3, partitions=1)
        # Then the result says so, and the groups get the records that they had not read, and the new ones
        assert (report.result, report.error) == ("succeeded", "")
        assert "2 direct groups have their places in west" in stored_operation(environment, report.operation).result
        got = read(environment, "west", topic, SWITCHED)
        assert [one.value for one in got] == [*(one.value for one in source[-2:]), *[b"x" * 20] * 3]
        # And a group of gateway clients that goes on from there has the client offset of the next record
        carry_group(environment, SWITCHED, "west", f"client-{topic}")
        assert committed(environment, "west", f"client-{topic}", topic) == source[-2].offset
        assert stored_topic(environment, topic).clusters == {"west"}
