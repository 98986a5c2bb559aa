"""More mirrors than one operation can keep, ended at once: without clusters."""

from collections.abc import Collection, Iterator
from types import SimpleNamespace

import pytest

from ha_core.model import Document, Mirror
from ha_core.model.evidence import SingleEvidence
from ha_core.model.portions import portions
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.operations.engine.single import begin_single
from ha_core.operations.mirror import unlinking
from ha_core.operations.mirror.unlinking import BATCH_MIRRORS, Unlink, unlink
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore

MIRRORS = 4_000
"""Their documents together are more than ZooKeeper takes."""


@pytest.fixture(autouse=True)
def _west(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does what it is asked for."""
    west = SimpleNamespace(cluster=SimpleNamespace(name="west"))
    monkeypatch.setattr(unlinking, "admin_of", lambda *_: west)
    monkeypatch.setattr(unlinking, "fence_copiers", lambda *_: None)
    monkeypatch.setattr(unlinking, "open_ended_copies", lambda *_: None)


def mirrored(store: MemoryStore, topics: Collection[str]) -> None:
    for number, some in enumerate(portions(topics, 500, lambda _: 1)):
        puts = [Mirror.of(name, "east", "west", "link", "2026-01-01T00:00:00Z", "test") for name in some]
        expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None for mirror in puts}
        store.commit(StateChange(change_id=f"link-{number}", puts=tuple(puts), expected=expected))


@pytest.fixture
def topics(store: MemoryStore) -> list[str]:
    names = [f"orders-of-a-customer-{number:05}" for number in range(MIRRORS)]
    mirrored(store, names)
    return names


def ended_by(environment: Environment) -> Iterator[tuple[str, int]]:
    for operation in environment.store.operations(100):
        assert isinstance(operation.evidence, SingleEvidence)
        yield operation.state, len(operation.evidence.mirrors)


def test_as_many_mirrors_as_no_operation_can_keep_are_ended_by_several(
    environment: Environment, topics: list[str]
) -> None:
    reports = unlink(environment, topics, "west", "not needed")
    # Then all have ended, each by one operation that keeps no more than it can
    assert {report.result for report in reports} == {"succeeded"}
    assert environment.store.load().mirrors == {}
    found = list(ended_by(environment))
    assert {state for state, _ in found} == {"succeeded"}
    assert sum(count for _, count in found) == MIRRORS
    assert max(count for _, count in found) <= BATCH_MIRRORS


def test_repeating_the_command_after_a_crash_between_two_operations_ends_the_rest(
    environment: Environment, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that dies at the end of the second operation
    ends = Unlink.end
    begun: list[str] = []

    def end(self: Unlink, journal: object) -> None:
        begun.append("")
        if len(begun) == 2:
            raise KeyboardInterrupt
        ends(self, journal)  # type: ignore[arg-type]

    with monkeypatch.context() as dying:
        dying.setattr(Unlink, "end", end)
        with pytest.raises(KeyboardInterrupt):
            unlink(environment, topics, "west", "not needed")
    assert 0 < len(environment.store.load().mirrors) < MIRRORS
    # When the same is said again, then what is left is ended
    unlink(environment, topics, "west", "not needed")
    assert environment.store.load().mirrors == {}
    # And a third time there is nothing to end
    with pytest.raises(RefusedError, match="has no mirror in west"):
        unlink(environment, topics, "west", "not needed")


def test_a_refusal_after_others_were_ended_does_not_claim_that_nothing_was_changed(
    environment: Environment, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic among the last on which an operation has begun when the first batch has ended
    ends = Unlink.end

    def end(self: Unlink, journal: object) -> None:
        ends(self, journal)  # type: ignore[arg-type]
        monkeypatch.setattr(Unlink, "end", ends)
        begin_single(environment, "unlink", "another", [f"topic:{topics[-1]}"])

    monkeypatch.setattr(Unlink, "end", end)
    # When all are to be ended
    with pytest.raises(StepFailedError) as raised:
        unlink(environment, topics, "west", "not needed")
    # Then it says which stand, and by what the others were ended
    assert "Nothing was changed" not in str(raised.value)
    assert "others were ended before, by unlink-" in str(raised.value)
    assert topics[-1] in {mirror.topic for mirror in environment.store.load().mirrors.values()}
