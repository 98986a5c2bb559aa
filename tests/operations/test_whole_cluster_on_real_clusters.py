"""All of a cluster goes to the copies of its topics, part by part, by commands that die inside a part; and by force."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.kafka.facts import TopicSpec
from ha_core.model import MoveOperation
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kafka.mirroring import content, wait_until
from tests.kit.mirroring import Copiers, await_copies
from tests.kit.moving import copiers_of, linked
from tests.kit.running import bootstrap
from tests.kit.stacks import operator, own_stack
from tests.operations.dying import COMMIT, Death, after, die
from tests.operations.real_clusters import held

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/running/whole_cluster.py", "ha_core/operations/move"),
    pytest.mark.timeout(900),
]
TOPICS, PARTITIONS, RECORDS, MORE = ("orders", "payments"), 2, 60, 11
BEHIND_ITS_FENCE, AFTER_ITS_CUT = after(COMMIT, "fence"), after(COMMIT, "cut")
_COMMAND = "from ha_core.cli import main\nmain()\n"


stack = own_stack(gateways=0)
"""A stack of its own: everything in it moves, and a cluster dies."""
environment = operator()


@pytest.fixture
def copiers(environment: Environment) -> Iterator[Copiers]:
    with copiers_of(environment, dict.fromkeys(TOPICS, PARTITIONS)) as running:
        yield running


@dataclass(frozen=True)
class Command:
    """`switchyard switch cluster:NAME`."""

    stack: Stack
    origin: str
    target: str
    forced: bool = False

    @property
    def arguments(self) -> list[str]:
        route = ["switch", f"cluster:{self.origin}", "--from", self.origin, "--to", self.target]
        mode = ["--mode", "forced", "--unread", "wait"] if self.forced else []
        more = ["--reason", "maintenance", "--yes", "--batch-topics", "2", "--zookeeper", self.stack.zookeeper]
        return [*route, *mode, *more]

    def dies(self, environment: Environment, death: Death) -> None:
        """Until ZooKeeper knows that it is dead; before that it is refused when it is asked again, as one at work."""
        die(self.stack, death, _COMMAND, *self.arguments)
        wait_until(lambda: not held(environment), lambda: held(environment))

    def run(self) -> None:
        """:raises AssertionError: it does not succeed."""
        found = CliRunner().invoke(build(), self.arguments)
        assert found.exit_code == 0, found.output


def written(stack: Stack, cluster: str, count: int) -> None:
    for topic in TOPICS:
        for number in range(PARTITIONS):
            produce({"bootstrap.servers": bootstrap(stack, cluster)}, topic, count, number, enable_idempotence=True)


def records(stack: Stack, cluster: str) -> list[int]:
    """How many each partition has there."""
    read = partial(content, {"bootstrap.servers": bootstrap(stack, cluster)})
    return [len(read(topic, number)) for topic in TOPICS for number in range(PARTITIONS)]


def all_copied(copiers: Copiers, target: str) -> None:
    for topic in TOPICS:
        with await_copies(copiers, topic, target, 180):
            pass


def assert_all_in(environment: Environment, cluster: str) -> None:
    """Users and topics are led there, and nothing stands."""
    view = environment.store.load()
    assert {topic: view.topics[topic].clusters for topic in TOPICS} == {topic: {cluster} for topic in TOPICS}
    assert {view.bindings[f"user-{topic}"].cluster for topic in TOPICS} == {cluster}
    assert [topic for topic in TOPICS if view.topics[topic].fence is not None] == []
    assert environment.store.locks() == []


def parts(environment: Environment, known: set[str]) -> list[tuple[tuple[str, ...], str]]:
    """Topics and state of each switch that is not among the known, the oldest first; they are known from now on."""
    operations = [
        operation
        for operation in environment.store.operations(50)
        if isinstance(operation, MoveOperation) and operation.id not in known
    ]
    known |= {operation.id for operation in operations}
    return [(tuple(operation.moves.topics), str(operation.state)) for operation in reversed(operations)]


def test_a_whole_cluster_goes_to_its_copies_although_the_command_dies_inside_a_part_and_by_force(
    stack: Stack, environment: Environment, copiers: Copiers
) -> None:
    # Given a cluster of two users with a mirrored topic and a group each
    admin_of(environment, "east").create_topics([TopicSpec(topic, PARTITIONS, 1) for topic in TOPICS])
    written(stack, "east", RECORDS)
    for topic in TOPICS:
        declare_usage(environment, f"user-{topic}", (topic,), (f"group-{topic}",))
    linked(environment, *TOPICS)
    all_copied(copiers, "west")
    known = {operation.id for operation in environment.store.operations(50)}
    # When the command is killed under the fence of its first part
    Command(stack, "east", "west").dies(environment, BEHIND_ITS_FENCE)
    (begun,) = (topic for topic in TOPICS if environment.store.load().topics[topic].fence is not None)
    # When it is asked again, then that part is undone and begun anew, and the other one goes as well
    Command(stack, "east", "west").run()
    assert_all_in(environment, "west")
    went = parts(environment, known)
    assert went[0] == ((begun,), "undone")
    assert sorted(went[1:]) == [((topic,), "succeeded") for topic in TOPICS]
    # And nothing is missing there, and east has become the standby of both
    written(stack, "west", MORE)
    all_copied(copiers, "east")
    assert records(stack, "west") == records(stack, "east") == [RECORDS + MORE] * PARTITIONS * len(TOPICS)
    assert compare_mirrors(environment, TOPICS, "east", 1.0, 0).equal
    # When the cluster is killed
    record(environment, ["east", "west"])
    stack.kill("cluster/west")
    # And the command that is to move all of it by force is killed after the cut of a part
    Command(stack, "west", "east", forced=True).dies(environment, AFTER_ITS_CUT)
    # When it is asked again, then that part is brought to its end, and the other one goes as well
    Command(stack, "west", "east", forced=True).run()
    assert_all_in(environment, "east")
    assert sorted(parts(environment, known)) == [((topic,), "succeeded") for topic in TOPICS]
    # And all that was copied is there; what the dead cluster may have more is to be counted when it is back
    assert records(stack, "east") == [RECORDS + MORE] * PARTITIONS * len(TOPICS)
    tails = {tail.topic: tail for tail in environment.store.lost_tails()}
    assert tails.keys() == set(TOPICS)
    assert {tail.cluster for tail in tails.values()} == {"west"}
    assert environment.store.load().mirrors == {}
