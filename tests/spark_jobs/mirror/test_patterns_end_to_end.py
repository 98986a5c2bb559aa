"""Patterns and the running job: a topic that is created later gets a standby with all its records, also when the job is
killed while it links."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ha_core.model import LostTail, Mirror
from ha_core.model.mirror_pattern import pattern_that_is
from ha_core.model.operation import LinkOperation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.pattern_states import PatternNow, pattern_problems, patterns_now
from ha_core.operations.mirror.patterns import pattern_request, plan_patterns, put_patterns, remove_patterns
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kafka.mirroring import content, wait_until
from tests.kit.moving import a_move, moved
from tests.kit.stacks import operator, own_stack

from .live import client

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("spark_jobs/mirror/pattern_links.py", "ha_core/operations/running/pattern_linking.py"),
]
EAST_WEST, WEST_EAST = ("east", "west"), ("west", "east")
RECORDS = 200

stack = own_stack(gateways=1, mirror=True)
environment = operator()


@pytest.fixture(autouse=True)
def no_patterns_are_left(environment: Environment) -> Iterator[None]:
    yield
    for pattern in environment.store.mirror_patterns():
        remove_patterns(environment, [pattern.pattern], pattern.target, "the test is over", pattern.source)


def put(environment: Environment, text: str, route: tuple[str, str] = EAST_WEST) -> None:
    report = put_patterns(environment, plan_patterns(environment, pattern_request([text], *route, (), "a standby")))
    assert report is not None
    assert (report.result, report.error) == ("succeeded", "")


def create(stack: Stack, cluster: str, *topics: str, partitions: int = 1) -> None:
    admin = AdminClient(client(stack, cluster))  # lives until it is answered
    for future in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(30)


def written(stack: Stack, cluster: str, topic: str, count: int = RECORDS) -> None:
    produce(client(stack, cluster), topic, count, enable_idempotence=True)


def equal(stack: Stack, topic: str, count: int = RECORDS) -> bool:
    source, copy = (content(client(stack, cluster), topic) for cluster in EAST_WEST)
    return len(source) == count and source == copy


def await_copy(stack: Stack, environment: Environment, topic: str) -> None:
    wait_until(lambda: equal(stack, topic), environment.store.mirror_reports)


def await_mirror(environment: Environment, topic: str) -> None:
    wait_until(lambda: f"{topic}@west" in mirrors(environment, topic), lambda: patterns_now(environment))


def only(environment: Environment) -> PatternNow:
    (found,) = patterns_now(environment).patterns
    return found


def mirrors(environment: Environment, prefix: str) -> dict[str, Mirror]:
    return {key: one for key, one in environment.store.load().mirrors.items() if key.startswith(prefix)}


def test_a_topic_that_is_created_after_its_pattern_has_a_standby_with_all_its_records(
    stack: Stack, environment: Environment
) -> None:
    # Given a topic of today, and one that will be refused
    create(stack, "east", "shop.today", "shop.foreign")
    create(stack, "west", "shop.foreign")
    written(stack, "west", "shop.foreign", 7)
    written(stack, "east", "shop.today")
    put(environment, "shop.*")
    await_mirror(environment, "shop.today")
    await_copy(stack, environment, "shop.today")
    # When topics are created and written to
    for number in range(3):
        topic, began_s = f"shop.tomorrow-{number}", time.monotonic()
        create(stack, "east", topic)
        written(stack, "east", topic)
        # Then each gets its standby, with all records
        await_mirror(environment, topic)
        linked_s = time.monotonic() - began_s
        await_copy(stack, environment, topic)
        print(f"{topic}: linked after {linked_s:.1f} s, its records copied after {time.monotonic() - began_s:.1f} s")
    # And the refused one is shown, with its reason
    wait_until(lambda: (look := only(environment).look) is not None and look.linked == 4, lambda: only(environment))
    (refused,) = only(environment).look.topics  # type: ignore[union-attr]
    assert (refused.topic, refused.state, refused.code) == ("shop.foreign", "refused", "foreign-data")
    (problem,) = pattern_problems(environment, environment.store.load())
    assert (problem.about, "7 offsets" in problem.text) == ("topic shop.foreign", True)
    assert stack.logs("mirror").count("shop.foreign is not as the pattern east>west:shop.* asks") == 1


def test_a_job_that_is_killed_while_it_links_leaves_each_topic_linked_once(
    stack: Stack, environment: Environment
) -> None:
    # Given many topics, and a pattern
    topics = [f"bills.{number:02}" for number in range(60)]
    create(stack, "east", *topics)
    written(stack, "east", topics[0])
    written(stack, "east", topics[-1])
    put(environment, "bills.*")

    def linking() -> list[str]:
        return [lock.operation for lock in environment.store.locks() if pattern_that_is(lock.by) is not None]

    for kill in range(2):
        # When the job is killed in the middle of a link, and started again
        wait_until(lambda: bool(linking()) or len(mirrors(environment, "bills.")) == len(topics), linking)
        time.sleep(0.3 * kill)
        print(f"killed while {set(linking())} runs, {len(mirrors(environment, 'bills.'))} are linked")
        stack.kill("mirror")
        stack.restart("mirror")
    wait_until(lambda: len(mirrors(environment, "bills.")) == len(topics) and not linking(), linking, 120)
    # Then each topic was linked by one operation that has succeeded, and every record is in its copy once
    made = [
        one
        for one in environment.store.operations(200)
        if isinstance(one, LinkOperation) and set(one.moves.topics) & set(topics)
    ]
    assert {one.state for one in made} <= {"succeeded", "undone"}
    done = [name for one in made if one.state == "succeeded" for name in one.moves.topics]
    assert sorted(done) == topics
    links = {one.id for one in made if one.state == "succeeded"}
    assert {mirror.link for mirror in mirrors(environment, "bills.").values()} <= links
    for topic in (topics[0], topics[-1]):
        await_copy(stack, environment, topic)


def test_after_a_planned_switch_the_patterns_of_both_directions_link_nothing_in_a_circle(
    stack: Stack, environment: Environment
) -> None:
    # Given patterns of both directions, and a topic with its standby
    create(stack, "east", "cards.a")
    written(stack, "east", "cards.a")
    put(environment, "cards.*")
    put(environment, "cards.*", WEST_EAST)
    await_mirror(environment, "cards.a")
    await_copy(stack, environment, "cards.a")
    # When it is switched, and the job has looked again in both directions
    assert moved(environment, a_move("cards.a")).result == "succeeded"
    assert environment.store.lost_tails() == list[LostTail]()
    after = environment.now()

    def looked_again() -> bool:
        return all(one.look is not None and one.look.at > after for one in patterns_now(environment).patterns)

    wait_until(looked_again, lambda: patterns_now(environment), 120)
    # Then it has one mirror, the reversed one, and new topics of both clusters get theirs
    assert {key: one.source for key, one in mirrors(environment, "cards.").items()} == {"cards.a@east": "west"}
    create(stack, "west", "cards.b")
    create(stack, "east", "cards.c")
    wait_until(lambda: len(mirrors(environment, "cards.")) == 3, lambda: patterns_now(environment))
    sources = {key: one.source for key, one in mirrors(environment, "cards.").items()}
    assert sources == {"cards.a@east": "west", "cards.b@east": "west", "cards.c@west": "east"}
