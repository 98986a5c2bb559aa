"""The parent of workers, with real processes: it starts them, starts a dead one anew, ends all, and dies with none."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.workers.scene import Scene, lives, until


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as running:
        yield running


def started(scene: Scene) -> Scene:
    scene.start()
    until(scene.ready, "all workers are ready")
    return scene


def counter(scene: Scene, name: str) -> float:
    lines = scene.page("/metrics")[1].splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"switchyard_gateway_{name} "))


def test_all_workers_listen_at_the_one_port_and_end_with_the_gateway(scene: Scene) -> None:
    # Given
    started(scene)
    # Then
    assert [len(scene.pids(worker)) for worker in (0, 1)] == [1, 1]
    socket.create_connection(("127.0.0.1", scene.port)).close()
    # When it is told to end
    # Then
    assert scene.end() == 0
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_an_interrupted_gateway_ends_in_the_same_way(scene: Scene) -> None:
    assert started(scene).end(signal.SIGINT) == 0
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_a_worker_that_dies_is_started_anew_while_the_others_go_on_and_nothing_counted_is_lost(scene: Scene) -> None:
    # Given
    started(scene)
    first, other = scene.pids(0)[0], scene.pids(1)[0]
    assert counter(scene, "starts_total") == 2
    # When
    os.kill(first, signal.SIGKILL)
    until(lambda: counter(scene, "workers_ended_total") == 1, "its end is seen")
    # Then the gateway is ready without it
    assert scene.ready()
    until(lambda: len(scene.pids(0)) == 2, "it is started anew")
    until(lambda: counter(scene, "workers_answering") == 2, "it is back")
    assert scene.pids(1) == [other]
    # And what it had counted is in the sum still
    assert counter(scene, "starts_total") == 3


def test_a_worker_that_dies_again_and_again_is_started_at_growing_intervals(scene: Scene, tmp_path: Path) -> None:
    started(scene)
    (tmp_path / "1.code").write_text("1")
    os.kill(scene.pids(1)[0], signal.SIGKILL)
    until(lambda: "again in 2 s" in scene.said(), "it has died three times")
    assert "again in 0.5 s" in scene.said()
    assert "again in 1 s" in scene.said()
    assert scene.ready()
    assert scene.end() == 0


def test_a_worker_that_cannot_even_begin_ends_the_gateway_as_one_process_would(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "1.code").write_text("1")
    scene.start()
    assert scene.process is not None
    assert scene.process.wait(20) == 1
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_a_configuration_that_is_wrong_by_now_ends_all_with_its_exit_code(scene: Scene, tmp_path: Path) -> None:
    started(scene)
    (tmp_path / "0.code").write_text("2")
    os.kill(scene.pids(0)[0], signal.SIGKILL)
    assert scene.process is not None
    assert scene.process.wait(20) == 2
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_workers_die_with_a_parent_that_was_killed(scene: Scene) -> None:
    started(scene).end(signal.SIGKILL)
    until(lambda: not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker)), "they have died")


def test_a_port_that_another_process_has_is_refused_although_workers_would_share_it(scene: Scene) -> None:
    # Given somebody who listens there, and would share it
    with socket.create_server(("127.0.0.1", scene.port), reuse_port=True):
        scene.start()
        assert scene.process is not None
        assert scene.process.wait(20) == 1
    assert f"127.0.0.1:{scene.port}: Address already in use; change listen.port or free it" in scene.said()
    assert scene.pids(0) == []


def test_one_worker_that_is_not_ready_or_hangs_is_named(scene: Scene, tmp_path: Path) -> None:
    started(scene)
    # When one has no lease
    (tmp_path / "1.unready").write_text("no lease")
    # Then
    assert json.loads(scene.page("/readyz")[1]) == {"ready": False, "reasons": ["worker 1: no lease"]}
    (tmp_path / "1.unready").unlink()
    # When one is stopped
    os.kill(scene.pids(0)[0], signal.SIGSTOP)
    # Then
    assert scene.page("/readyz") == (503, '{"ready": false, "reasons": ["worker 0 does not answer"]}\n')
    os.kill(scene.pids(0)[0], signal.SIGCONT)
    assert scene.ready()


def test_who_is_connected_is_told_of_all_workers_at_once(scene: Scene) -> None:
    status, text = started(scene).page("/connections?limit=1")
    found = json.loads(text)
    assert (status, found["gateway"], found["total"]) == (200, "gw-1", 2)
    assert [row["user"] for row in found["connections"]] == ["0"]


def test_how_a_client_is_served_is_told_where_the_workers_agree(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "revision").write_text("7")
    assert started(scene).page("/explain") == (200, '{"gateway": "gw-1", "revision": "7"}\n')
