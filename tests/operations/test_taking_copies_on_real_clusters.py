"""Copies that a forced switch takes over, on real clusters: one whose log is not there has begun, or it has not."""

import threading
import uuid

import pytest

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Mirror
from ha_core.operations.copies.taken import require_usable, take_over
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.proposal.requests import make_request
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kit.stacks import operator

pytestmark = pytest.mark.stack


environment = operator()


@pytest.fixture
def mirror(environment: Environment) -> Mirror:
    """The mirror of an empty topic, with a copy log of its own that does not exist yet."""
    name = f"taken-{uuid.uuid4().hex[:8]}"
    for cluster in ("east", "west"):
        admin_of(environment, cluster).create_topics([TopicSpec(name, 1, 1)])
    found = Mirror.of(name, "east", "west", f"link-{name}", "2026-11-23T02:00:00Z", "test")
    return found.changed(log=f"copies-{name}", log_partitions=2, held="op")


def test_a_copy_with_records_does_not_count_as_not_begun(
    stack: Stack, environment: Environment, mirror: Mirror
) -> None:
    # Given a copy with records, and no copy log
    produce({"bootstrap.servers": stack.clusters["west"]["bootstrap"]}, mirror.topic, 5)
    # When a forced switch takes it over
    taken = take_over(environment, admin_of(environment, "west"), [mirror], [(mirror.topic, 0)])
    # Then it is damaged, and the refusal says why and what to do
    assert taken.copies == {}
    request = make_request([f"topic:{mirror.topic}"], "east", "west", reason="r", mode="forced", unread="wait")
    with pytest.raises(StepFailedError, match=rf"{mirror.topic}-0 holds records.*\(copies-{mirror.topic}\).*come up"):
        require_usable(request, [mirror.topic], taken)


def test_an_empty_copy_without_a_copy_log_counts_as_not_begun(environment: Environment, mirror: Mirror) -> None:
    assert take_over(environment, admin_of(environment, "west"), [mirror], [(mirror.topic, 0)]) == ({}, {}, {})


def test_a_log_that_is_known_a_moment_later_is_waited_for(environment: Environment, mirror: Mirror) -> None:
    # Given a copy log that the target knows half a second after it was asked for
    west, (copy,) = admin_of(environment, "west"), copies_of(mirror, 1)
    late = threading.Timer(0.5, ensure_copy_log, (west, mirror.log, mirror.log_partitions))
    late.start()
    # When a forced switch takes the copy over
    assert take_over(environment, west, [mirror], [copy.key]) == ({}, {}, {})
    late.join()
    # Then the earlier copier is fenced: the marker for that is in the log
    assert west.ends([copy.key])[copy.key].log_end > 0
