"""The gateways keep recorded facts of clusters fresh: one gateway records, and another one when the first is gone."""

import contextlib
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from ha_core.model import KnownTopic
from ha_core.store.store import Store
from stack.harness import Stack
from stack.processes import descendants
from tests.kit.platform import create_topic
from tests.kit.stacks import own_stack
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/running/recorder_process.py", "ha_core/operations/clusters/last_seen.py"),
]
SESSION_S, STARTING_S = 6.0, 15.0
RECORDER = b"ha_core.operations.running.recorder_process"


stack = own_stack({"east": "4.3.1"}, security="sasl", record_facts_s=1)


def those_that_record(stack: Stack) -> list[str]:
    """Ids of gateways that report to Prometheus that they record."""
    found = []
    for gateway in stack.gateways:
        try:
            said = httpx.get(f"{gateway['http']}/metrics").text
        except httpx.TransportError:
            continue
        if "switchyard_gateway_records_facts 1.0" in said:
            found.append(gateway["id"])
    return found


def recorders(stack: Stack) -> list[int]:
    """All recording processes."""
    found = []
    for gateway in stack.gateways:
        for pid in descendants(gateway["pid"]):
            with contextlib.suppress(OSError):  # it may end meanwhile
                if RECORDER in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
    return found


def test_one_gateway_records_facts_and_another_takes_over_while_it_is_down(stack: Stack, store: Store) -> None:
    # Given two gateways, one of which records
    create_topic(stack, "early")
    until(lambda: "early" in store.known(KnownTopic, "east"), "a topic is known", STARTING_S)
    until(lambda: those_that_record(stack) == ["gw-1"], "one gateway records", STARTING_S)
    (first,) = recorders(stack)

    # When it is killed
    os.kill(stack.gateways[0]["pid"], signal.SIGKILL)
    killed_at = time.monotonic()
    until(lambda: not Path(f"/proc/{first}").exists(), "its process ends with it")
    until(lambda: those_that_record(stack) == ["gw-2"], "the other one records", SESSION_S + STARTING_S)
    print(f"taken over after {time.monotonic() - killed_at:.1f} s")

    # Then facts stay fresh, of new topics too
    create_topic(stack, "late")
    until(lambda: "late" in store.known(KnownTopic, "east"), "a new topic is known", STARTING_S)
    at = store.known(KnownTopic, "east")["early"].at
    until(lambda: store.known(KnownTopic, "east")["early"].at > at, "the next look", STARTING_S)

    # And when the first one is back, one process records again
    stack.restart("gateway/1")
    until(lambda: those_that_record(stack) == ["gw-1"], "the first one records again", STARTING_S)
    until(lambda: len(recorders(stack)) == 1, "there is one process")
