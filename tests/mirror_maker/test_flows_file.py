"""A file of flows that changes while workers follow it. Without a cluster."""

import os
import time
from pathlib import Path

import pytest

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.mirror_maker.flows_file import SETTLED_S, FlowsFile

HALF = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def write(file: Path, text: str, age_s: float) -> None:
    file.write_text(text)
    at = time.time() - age_s
    os.utime(file, (at, at))


def copies(found: Configuration, topic: str) -> bool:
    (flow,) = found.flows
    return flow.route.accepts(topic)


def test_half_of_a_file_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    """The half has no line that names topics, which is valid: the worker created copies of all topics of the source."""
    file = tmp_path / "mm2.properties"
    write(file, f"{HALF}A->B.topics = orders\n", 60)
    followed = FlowsFile(file)
    before = followed.read()
    assert not copies(before, "secrets")
    write(file, HALF, 0)
    assert followed.read() is before
    write(file, f"{HALF}A->B.topics = orders, payments\n", 0)
    assert followed.read() is before
    write(file, f"{HALF}A->B.topics = orders, payments\n", SETTLED_S)
    after = followed.read()
    assert copies(after, "payments")
    assert not copies(after, "secrets")


def test_a_file_that_was_just_written_counts_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    write(file, HALF, 0)
    assert copies(FlowsFile(file).read(), "orders")


def test_a_file_of_a_host_whose_clock_is_ahead_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    write(file, f"{HALF}A->B.topics = orders\n", -600)
    followed = FlowsFile(file)
    assert not copies(followed.read(), "payments")
    write(file, f"{HALF}A->B.topics = payments\n", -600)
    assert copies(followed.read(), "payments")


def test_a_file_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    write(file, HALF, 60)
    followed = FlowsFile(file)
    followed.read()
    file.unlink()
    with pytest.raises(FlowError, match=r"mm2\.properties"):
        followed.read()
