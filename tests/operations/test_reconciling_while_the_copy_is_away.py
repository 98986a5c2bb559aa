"""A returned cluster is not given up because the cluster of its copy does not answer."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.counting import Counted
from ha_core.kafka.facts import LogEnds
from ha_core.model import Cluster, Extent, Topic
from ha_core.operations.absence import reconciling
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.engine.environment import Environment, utc_now
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.absence.reconciled import written_again_from
from tests.cli.invoking import seeded
from tests.kit.operations import a_tail

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
WEST = Cluster(name="west", bootstrap="127.0.0.1:1")
TAIL = a_tail()


class East:
    """It is back, healthy, and has what was mirrored and 20 offsets beyond."""

    cluster = EAST

    def topics(self, names: Collection[str], **_: Any) -> dict[str, Any]:
        ends = {0: LogEnds(0, 40, 40, 40, 1, 1)}
        return {name: SimpleNamespace(partitions=1, ends=ends) for name in names}

    def leaderships(self, keys: Collection[Any]) -> dict[Any, Any]:
        return {}


@pytest.fixture
def east_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Environment.admin

    def admin(self: Environment, cluster: Cluster) -> Any:
        return East() if cluster.name == "east" else asked(self, cluster)

    monkeypatch.setattr(Environment, "admin", admin)


@pytest.mark.usefixtures("east_is_back")
@pytest.mark.parametrize("accept_loss", [False, True])
def test_nothing_is_written_off_while_only_the_copy_does_not_answer(accept_loss: bool) -> None:
    store = seeded(EAST, WEST, TAIL)
    with Environment(store.client(), by="test", now=utc_now) as environment, pytest.raises(RefusedError) as refused:
        reconcile(environment, "east", ["orders"], accept_loss=accept_loss, reason="it is back")

    # Then the cluster that is away is named, and the way on without it
    assert "west does not answer, not east" in str(refused.value)
    assert "switch topic:orders --mode forced --from west --to east" in str(refused.value)
    assert store.client().lost_tails() == [TAIL]


@pytest.mark.usefixtures("east_is_back")
def test_a_loss_that_was_accepted_without_a_count_is_counted_when_both_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted = TAIL.changed(counted="2026-11-23T11:00:00Z")
    store = seeded(EAST, WEST, accepted)
    monkeypatch.setattr(reconciling._Reconciling, "_made_again", lambda *_: False)
    monkeypatch.setattr(reconciling, "count", lambda _cluster, _key, start, end, _stable: Counted(end - start, 7))
    with Environment(store.client(), by="test", now=utc_now) as environment:
        reconciled = reconcile(environment, "east", verify="none", mirror=False, dry_run=True, reason="")

    assert [(tail.outcome, tail.start, tail.end, tail.records) for tail in reconciled.tails] == [
        ("counted", 20, 40, 20)
    ]


@pytest.mark.parametrize(("base", "expected"), [(33, 33), (None, None)])
def test_records_written_after_a_return_of_the_writer_are_no_part_of_the_tail(
    base: int | None, expected: int | None
) -> None:
    extents = (
        Extent(cluster="east", start=0, end=20, base=0, writer_epoch=0),
        Extent(cluster="west", start=500, end=600, base=21, writer_epoch=1),
        *(() if base is None else (Extent(cluster="east", start=600, end=None, base=base, writer_epoch=2),)),
    )
    topic = Topic(name="orders", writer="east", partitions={0: extents})
    assert written_again_from(topic, TAIL, 0) == expected
