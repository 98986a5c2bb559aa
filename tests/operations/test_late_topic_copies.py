"""No client is sent to a copy that is created in the target after its move was undone."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError, RequestRefusedError
from ha_core.kafka.facts import CreatedTopics, TopicSpec
from ha_core.model import Cluster, Operation, SwitchOperation, Topic
from ha_core.model.extent import identity
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.plan.move.planner import TASKS, UNDO
from tests.kit.operations import a_switch

SPEC = TopicSpec("orders", 1, 1, {})


@dataclass
class Side:
    """A cluster with some topics; what it is asked to make it makes, or does what was said."""

    names: set[str] = field(default_factory=set)
    instead: Callable[[], None] = lambda: None

    def probe(self) -> SimpleNamespace:
        return SimpleNamespace(brokers=(1,))

    def topic_defaults(self) -> dict[str, str]:
        return {}

    def topics(self, names: Collection[str], offsets: bool, timeout_s: float | None = None) -> dict[str, TopicSpec]:
        return dict.fromkeys(self.names.intersection(names), SPEC)

    def access_rules(self, timeout_s: float | None = None) -> None:
        """It has no authoriser."""

    def create_topics(self, specs: Collection[TopicSpec], still_ours: Callable[[], None]) -> CreatedTopics:
        self.instead()
        self.names |= {spec.name for spec in specs}
        return CreatedTopics(tuple(spec.name for spec in specs), (), ())

    def delete_empty_topics(self, names: Collection[str], still_ours: Callable[[], None]) -> tuple[str, ...]:
        gone = self.names.intersection(names)
        self.names -= gone
        return tuple(gone)


@pytest.fixture
def sides(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> dict[str, Side]:
    found = {"east": Side({"orders"}), "west": Side()}

    def admin(cluster: Cluster) -> Side:
        return found[cluster.name]

    monkeypatch.setattr(environment, "admin", admin)
    return found


@pytest.fixture
def journal(environment: Environment) -> Journal[SwitchOperation]:
    operation = a_switch()
    return Journal(environment, operation, environment.store.create_operation(operation, []))


def prepare(journal: Journal[SwitchOperation]) -> None:
    steps = SwitchSteps(journal)
    for step in TASKS["prepare"]:
        steps.perform(step)


def undo(journal: Journal[SwitchOperation]) -> None:
    steps = SwitchSteps(journal)
    for step in UNDO:
        steps.perform(step)


def topics(journal: Journal[SwitchOperation]) -> dict[str, Topic]:
    return dict(journal.environment.store.load().topics)


def raises(error: KafkaAdminError) -> Callable[[], None]:
    def instead() -> None:
        raise error

    return instead


@pytest.mark.parametrize(
    "error",
    [
        ClusterUnreachableError("west", "127.0.0.1:1", "did not create topic orders"),
        NotReadyError("west", "broker 2 knows no leaders yet for orders"),
    ],
)
def test_after_an_unanswered_topic_creation_an_undo_keeps_the_map_that_pins_the_origin(
    journal: Journal[SwitchOperation], sides: dict[str, Side], error: KafkaAdminError
) -> None:
    # Given a controller that takes its time, or brokers that do
    sides["west"].instead = raises(error)
    with pytest.raises(type(error)):
        prepare(journal)
    # When the move is undone, and the topic made then
    undo(journal)
    sides["west"].names.add("orders")
    # Then everybody is led to the origin as before
    assert topics(journal) == {"orders": Topic(name="orders", writer="east", partitions={0: identity("east")})}


def test_an_executor_that_resumes_after_an_undo_creates_a_topic_that_no_client_is_led_to(
    journal: Journal[SwitchOperation], sides: dict[str, Side]
) -> None:
    # Given an executor that stands still between asking whether the operation is its own, and making the topic
    def undone_by_somebody() -> None:
        store = journal.environment.store
        epoch = store.take_over(journal.operation.id)
        found = store.read(Operation, journal.operation.id)
        assert found is not None
        assert isinstance(found[0], SwitchOperation)
        undo(Journal(journal.environment, found[0], epoch))

    sides["west"].instead = undone_by_somebody
    # When it goes on
    with pytest.raises(Exception, match="taken over"):
        prepare(journal)
    # Then the topic is there, and its map leads everybody to the origin
    assert sides["west"].names == {"orders"}
    assert topics(journal)["orders"].writer == "east"


@pytest.mark.parametrize("refused", [True, False])
def test_an_undo_removes_the_pinning_map_once_no_copy_can_exist(
    journal: Journal[SwitchOperation], sides: dict[str, Side], refused: bool
) -> None:
    # Given a target that refuses to make the topic, or that has made it
    if refused:
        sides["west"].instead = raises(RequestRefusedError("west", "no"))
        with pytest.raises(RequestRefusedError):
            prepare(journal)
    else:
        prepare(journal)
    # When the move is undone
    undo(journal)
    # Then neither map nor topic is left
    assert topics(journal) == {}
    assert sides["west"].names == set()
