"""Drills on a real stack: planned, onto a mirror, forced, and one whose process is killed while its scope is away."""

import itertools
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from stack.harness import Stack
from tests.kit.running import (
    CommandFailedError,
    bind,
    bootstrap,
    create_topic,
    start_command,
    switchyard,
    switchyard_command,
)
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.watching import led_from

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.long("ha_core/operations/drill", "ha_core/model/drill.py", "ha_core/operators/drills.py"),
]
TOPIC, USER = "switchyard-canary", "canary"
PLAIN = "without-a-mirror"
"""User and topic of a second canary."""
SHOP, BESIDE = "shop", "beside-the-shop"
"""User and topic of an application, and those of a canary beside it."""
WAY = ("--from", "east", "--to", "west", "--reason", "a test", "--yes")
MIRROR = ("mirror", "link", TOPIC, "--from", "east", "--to", "west", "--reason", "a test", "--yes")

stack = own_stack(mirror=True, record_facts_s=2)


@pytest.fixture(scope="module")
def canary(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of the canary's client; its topic is in east."""
    return client_file(stack, tmp_path_factory.mktemp("canary"), USER, TOPIC)


def client_file(stack: Stack, folder: Path, user: str, topic: str) -> Path:
    create_topic(bootstrap(stack, "east"), topic, 2)
    bind(stack, user, "east")
    file = folder / "client.properties"
    file.write_text(f"# of a test\nbootstrap.servers = {stack.bootstrap}\nclient.id = HA#{user}#{topic}\n")
    return file


def drill(stack: Stack, canary: Path, *options: str, user: str = USER) -> dict[str, Any]:
    command = ("drill", "run", f"user:{user}", *WAY, "--canary", str(canary), "--hold-s", "2", *options)
    return switchyard(stack, *command, timeout_s=300)


def at_home(stack: Stack) -> bool:
    return led_from(stack, TOPIC) == {"east"}


def test_a_drill_goes_there_and_home_loses_nothing_and_tells_missed_targets(stack: Stack, tmp_path: Path) -> None:
    file = client_file(stack, tmp_path, PLAIN, PLAIN)
    options = ("--canary-topic", PLAIN, "--rpo-target-records", "0")
    report = drill(stack, file, *options, "--rto-target-ms", "5000", user=PLAIN)
    assert report["result"] == "passed", report
    (service, fenced) = report["services"]
    assert (service["name"], service["lost"], service["repeated"]) == ("canary", 0, 0)
    assert 0 < service["rto_ms"] < 5_000
    assert fenced["rto_ms"] < 2_000
    assert [step["name"] for step in report["steps"]] == ["canary ready", "there", "hold", "home"]
    assert report["changes"] == ["first drill of this scope"]
    assert not report["away"]
    with pytest.raises(CommandFailedError) as failed:
        drill(stack, file, *options, "--rto-target-ms", "0", user=PLAIN)
    missed = failed.value.document
    assert missed["result"] == "missed"
    assert "target 0 ms" in missed["text"]
    with pytest.raises(CommandFailedError, match="has no mirror in west"):
        drill(stack, file, "--canary-topic", PLAIN, "--kind", "forced", user=PLAIN)


def test_a_drill_of_a_real_scope_takes_its_clients_there_and_home_without_loss(stack: Stack, tmp_path: Path) -> None:
    file = client_file(stack, tmp_path, BESIDE, BESIDE)
    create_topic(bootstrap(stack, "east"), SHOP, 2)
    bind(stack, SHOP, "east")
    with writing(stack, SHOP) as acked:
        until(lambda: len(acked) > 20, "the application writes")
        options = ("--canary", str(file), "--canary-topic", BESIDE, "--hold-s", "2")
        report = switchyard(stack, "drill", "run", f"user:{SHOP}", f"user:{BESIDE}", *WAY, *options, timeout_s=300)
        before = len(acked)
        until(lambda: len(acked) > before + 20, "the application goes on at home")
    assert report["result"] == "passed", report
    services = {one["name"]: one for one in report["services"]}
    assert services.keys() == {"canary", f"user:{SHOP}", f"user:{BESIDE}"}
    assert (services["canary"]["lost"], services[f"user:{SHOP}"]["measured_by"]) == (0, "fence")
    assert report["topics"] >= 2
    assert led_from(stack, SHOP) == {"east"}
    assert sorted(delivered(stack, SHOP, len(acked))) == sorted(acked)  # none lost, none twice


def test_drills_onto_a_mirror_lose_nothing_if_planned_and_count_the_loss_if_forced(stack: Stack, canary: Path) -> None:
    assert switchyard(stack, *MIRROR)["result"] == "succeeded"
    until(lambda: copied(stack), "the mirror is copied", 120)
    planned = drill(stack, canary)
    assert (planned["result"], planned["services"][0]["lost"]) == ("passed", 0)
    until(lambda: copied(stack), "the mirror is copied from east again", 120)
    forced = drill(stack, canary, "--kind", "forced")
    assert forced["result"] == "passed", forced
    counted = forced["services"][1]["lost"]
    assert forced["services"][0]["lost"] <= counted  # its consumer may have read records that the copy lacked
    assert [step["name"] for step in forced["steps"]] == ["canary ready", "there", "hold", "reconcile", "home"]
    until(lambda: at_home(stack), "the canary is led to east")


def test_a_drill_whose_process_was_killed_is_brought_home_by_a_command(stack: Stack, canary: Path) -> None:
    options = ("--hold-s", "120", "--canary", str(canary))
    process = start_command(stack, "drill", "run", f"user:{USER}", *WAY, *options)
    until(lambda: led_from(stack, TOPIC) == {"west"}, "the canary is led to west", 60)
    until(lambda: away(stack) is not None, "the drill says that its scope is away", 30)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    identity = away(stack)
    assert identity is not None
    with pytest.raises(CommandFailedError, match="has not ended"):
        drill(stack, canary)
    ended = switchyard(stack, "drill", "home", identity, "--reason", "its process had died", timeout_s=120)
    assert (ended["result"], ended["away"]) == ("failed", False)
    until(lambda: at_home(stack), "the canary is led to east")
    assert drill(stack, canary)["result"] == "passed"


@contextmanager
def writing(stack: Stack, user: str) -> Iterator[list[str]]:
    """A client of `user` that writes to the topic of that name meanwhile; the values that were acknowledged."""
    settings = {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{user}#{user}", "enable.idempotence": True}
    producer, over, acked = Producer(settings), threading.Event(), list[str]()

    def note(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            acked.append(value.decode())

    def write() -> None:
        for number in itertools.count():
            if over.wait(0.02):
                return
            producer.produce(user, f"{number}", partition=number % 2, on_delivery=note)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield acked
    finally:
        over.set()
        thread.join()
        assert producer.flush(60) == 0


def delivered(stack: Stack, user: str, count: int) -> list[str]:
    """All values of its topic, from the beginning."""
    group = {"group.id": f"{user}-readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{user}#{user}", **group})
    consumer.subscribe([user])
    found = list[str]()

    def read() -> bool:
        message = consumer.poll(1.0)
        value = None if message is None or message.error() else message.value()
        if value is not None:
            found.append(value.decode())
        return message is None and len(found) >= count

    try:
        until(read, lambda: f"{len(found)} of {count} records", 120)
    finally:
        consumer.close()
    return found


def test_an_overdue_drill_is_an_alarm(stack: Stack) -> None:
    way = ("--from", "east", "--to", "west", "--every-days", "90")
    switchyard(stack, "drill", "schedule", "quarterly", f"user:{USER}", *way)
    assert switchyard(stack, "drill", "list")["overdue_days"] == {}
    switchyard(stack, "drill", "unschedule", "quarterly")


def away(stack: Stack) -> str | None:
    return next((one["id"] for one in drills(stack) if one["away"]), None)


def drills(stack: Stack) -> list[dict[str, Any]]:
    try:
        listed: list[dict[str, Any]] = switchyard(stack, "drill", "list")["drills"]
    except CommandFailedError as error:  # exit code 6: a scope is away
        listed = error.document["drills"]
    return listed


def copied(stack: Stack) -> bool:
    program = json.loads(_mirrors(stack))
    return bool(program) and all(one["state"] == "copying" for one in program if one["topic"] == TOPIC)


def _mirrors(stack: Stack) -> str:
    done = subprocess.run(switchyard_command(stack, "mirrors"), capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip().splitlines()[-1]
