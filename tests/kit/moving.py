"""Mirrors and moves of topics that a test carries out in its own process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.model import MoveRequest
from ha_core.model.operation import LinkOperation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.report import Report
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.proposal.proposal import Proposal, plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from tests.kit.mirroring import Copiers


def a_move(*topics: str, origin: str = "east", target: str = "west", **asked: Any) -> MoveRequest:
    """A request to switch topics, whose users outside of it are included."""
    options = {"reason": "drill", "include_other_users": True, **asked}
    return make_request([f"topic:{topic}" for topic in topics], origin, target, **options)


def a_forced_move(*topics: str, origin: str = "east", target: str = "west", **asked: Any) -> MoveRequest:
    """As `a_move` out of a dead cluster, whose readers wait for it."""
    return a_move(*topics, origin=origin, target=target, mode="forced", unread="wait", **asked)


def moved(environment: Environment, asked: MoveRequest | Proposal) -> Report:
    """Carry out a request or a proposal."""
    proposal = plan(environment, asked) if isinstance(asked, MoveRequest) else asked
    return engine.resume(environment, engine.start(environment, proposal).id)


def linked(
    environment: Environment, *topics: str, source: str = "east", target: str = "west", **asked: Any
) -> LinkOperation:
    """Mirror the topics. :raises AssertionError: it did not succeed."""
    proposal = plan_link(environment, link_request(topics, source, target, "a standby", **asked))
    report = engine.resume(environment, engine.start(environment, proposal).id)
    assert (report.result, report.error) == ("succeeded", "")
    operation = environment.operation(report.operation)
    assert isinstance(operation, LinkOperation)
    return operation


@contextmanager
def copiers_of(environment: Environment, topics: Mapping[str, int]) -> Iterator[Copiers]:
    """Copiers of all mirrors of the topics, which are given with their numbers of partitions."""
    admins = {name: Admin(cluster) for name, cluster in environment.store.load().clusters.items()}
    with Copiers(environment.store, admins, topics) as running:
        yield running
    for admin in admins.values():
        admin.close()
