"""The parent of workers, with real processes: it starts them, restarts dead ones, ends all, and dies with none."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.workers.scene import Scene, lives
from tests.kit.waiting import until


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


def newcomer(scene: Scene) -> str:
    """The worker that takes a client; "": none."""
    try:
        with socket.create_connection(("127.0.0.1", scene.port), timeout=5) as client:
            return client.recv(1).decode()
    except ConnectionError:
        return ""


def refused(scene: Scene) -> bool:
    try:
        socket.create_connection(("127.0.0.1", scene.port), timeout=5).close()
    except ConnectionError:
        return True
    return False


def test_all_workers_listen_at_the_one_port_and_end_with_the_gateway(scene: Scene) -> None:
    # Given
    started(scene)
    # Then
    assert [len(scene.pids(worker)) for worker in (0, 1)] == [1, 1]
    socket.create_connection(("127.0.0.1", scene.port)).close()
    # When it is terminated
    # Then
    assert scene.end() == 0
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_an_interrupted_gateway_ends_in_the_same_way(scene: Scene) -> None:
    assert started(scene).end(signal.SIGINT) == 0
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_a_dead_worker_is_restarted_while_the_others_go_on_and_no_count_is_lost(scene: Scene) -> None:
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
    # And its counts are still in the sum
    assert counter(scene, "starts_total") == 3


def test_a_worker_that_keeps_dying_is_restarted_at_growing_intervals(scene: Scene, tmp_path: Path) -> None:
    started(scene)
    (tmp_path / "1.code").write_text("1")
    os.kill(scene.pids(1)[0], signal.SIGKILL)
    until(lambda: "again in 2 s" in scene.said(), "it has died three times")
    assert "again in 0.5 s" in scene.said()
    assert "again in 1 s" in scene.said()
    assert scene.ready()
    assert scene.end() == 0


def test_a_worker_that_cannot_start_ends_the_gateway_as_one_process_would(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "1.code").write_text("1")
    scene.start()
    assert scene.process is not None
    assert scene.process.wait(20) == 1
    assert not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker))


def test_a_configuration_that_has_become_invalid_stops_one_worker_and_not_the_others(
    scene: Scene, tmp_path: Path
) -> None:
    # Given a worker that dies while a file that the configuration names cannot be used
    started(scene)
    (tmp_path / "0.code").write_text("2")
    os.kill(scene.pids(0)[0], signal.SIGKILL)
    until(lambda: "worker 0 has died (2)" in scene.said(), "it was started anew")
    # Then the other one serves on
    assert scene.ready()
    assert newcomer(scene) == "1"
    # And it comes back when the file is good
    (tmp_path / "0.code").unlink()
    until(lambda: counter(scene, "workers_answering") == 2, "it is back")


def test_a_restarted_worker_has_the_configuration_of_the_others_and_not_that_of_a_changed_file(
    scene: Scene, tmp_path: Path
) -> None:
    # Given
    started(scene)
    (tmp_path / "config.json").write_text("for the next restart")
    # When
    os.kill(scene.pids(0)[0], signal.SIGKILL)
    until(lambda: len(scene.pids(0)) == 2, "it is started anew")
    until(lambda: counter(scene, "workers_answering") == 2, "it is back")
    # Then
    first, anew = (tmp_path / "0.said").read_text().splitlines()
    assert anew == first
    assert json.loads(anew)["listen"]["port"] == scene.port


def test_while_a_worker_hangs_the_others_serve_new_clients(scene: Scene) -> None:
    # Given
    started(scene)
    hanging = scene.pids(0)[0]
    os.kill(hanging, signal.SIGSTOP)
    # When many come
    # Then none of them waits for it
    assert [newcomer(scene) for _ in range(40)] == 40 * ["1"]
    # And it serves again when it continues
    os.kill(hanging, signal.SIGCONT)
    os.kill(scene.pids(1)[0], signal.SIGSTOP)
    assert newcomer(scene) == "0"


def test_while_no_worker_serves_clients_are_refused_at_once_and_the_port_stays_the_gateways(
    scene: Scene, tmp_path: Path
) -> None:
    # Given a client that is connected, and workers that die and do not come back
    started(scene)
    for worker in (0, 1):
        (tmp_path / f"{worker}.code").write_text("1")
        os.kill(scene.pids(worker)[0], signal.SIGKILL)
    until(lambda: refused(scene), "nobody serves any more")
    # Then no other process can have the port
    with pytest.raises(OSError, match="Address already in use"):
        socket.create_server(("127.0.0.1", scene.port), reuse_port=True)
    # And clients are served when one is back; those that come before its parent has heard of it may be sent away
    # once more, where the other one dies just then
    (tmp_path / "1.code").unlink()
    until(lambda: newcomer(scene) == "1", "one is back")


def test_clients_are_refused_while_a_gateway_ends_that_waits_for_a_worker_that_hangs(scene: Scene) -> None:
    # Given
    started(scene)
    hanging = scene.pids(0)[0]
    os.kill(hanging, signal.SIGSTOP)
    # When
    assert scene.process is not None
    scene.process.terminate()
    # Then
    until(lambda: not lives(scene.pids(1)[0]), "the other one has ended")
    assert refused(scene)
    os.kill(hanging, signal.SIGCONT)
    assert scene.process.wait(20) == 0


def test_workers_die_with_a_parent_that_was_killed(scene: Scene) -> None:
    started(scene).end(signal.SIGKILL)
    until(lambda: not any(lives(pid) for worker in (0, 1) for pid in scene.pids(worker)), "they have died")


def test_a_port_that_another_process_has_is_refused_although_workers_would_share_it(scene: Scene) -> None:
    # Given a process that listens there, and would share it
    with socket.create_server(("127.0.0.1", scene.port), reuse_port=True):
        scene.start()
        assert scene.process is not None
        assert scene.process.wait(20) == 1
    assert f"127.0.0.1:{scene.port}: Address already in use; change listen.port or free it" in scene.said()
    assert scene.pids(0) == []


def test_a_gateway_is_ready_while_one_worker_is_and_otherwise_names_each(scene: Scene, tmp_path: Path) -> None:
    started(scene)
    # When one hangs
    os.kill(scene.pids(0)[0], signal.SIGSTOP)
    # Then the other one is enough, and the metrics say that one is missing
    assert scene.ready()
    assert counter(scene, "workers_answering") == 1
    # When that one has no lease
    (tmp_path / "1.unready").write_text("no lease")
    # Then
    assert scene.page("/readyz")[0] == 503
    found = json.loads(scene.page("/readyz")[1])
    assert found == {"ready": False, "reasons": ["worker 0 does not answer", "worker 1: no lease"]}
    os.kill(scene.pids(0)[0], signal.SIGCONT)
    assert scene.ready()


def test_a_gateway_that_starts_is_ready_when_all_workers_are(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "1.late").touch()
    scene.start()
    until(lambda: "worker 1: it has only begun" in scene.page("/readyz")[1], "one worker serves")
    (tmp_path / "1.late").unlink()
    until(scene.ready, "all do")


def test_a_gateway_is_not_ready_before_each_worker_has_reported_that_it_serves(scene: Scene, tmp_path: Path) -> None:
    # Given a worker that serves, and is slow to report it
    (tmp_path / "1.untold").touch()
    scene.start()
    until(lambda: newcomer(scene) == "0", "one serves")
    until(lambda: json.loads(scene.page("/connections")[1] or "{}").get("total") == 2, "both answer")
    # Then the gateway is not ready: if the worker died now, the gateway would end, as when it cannot start
    assert json.loads(scene.page("/readyz")[1])["reasons"] == ["not every worker has reported that it serves"]
    (tmp_path / "1.untold").unlink()
    until(scene.ready, "all do")


def test_the_connections_page_lists_clients_of_all_workers(scene: Scene) -> None:
    status, text = started(scene).page("/connections?limit=1")
    found = json.loads(text)
    assert (status, found["gateway"], found["total"]) == (200, "gw-1", 2)
    assert [row["user"] for row in found["connections"]] == ["0"]


def test_an_explanation_is_given_once_where_the_workers_agree(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "revision").write_text("7")
    _, text = started(scene).page("/explain")
    assert json.loads(text) == {"gateway": "gw-1", "revision": 7, "leading": "east"}


def test_explanations_of_all_workers_are_given_where_they_differ(scene: Scene, tmp_path: Path) -> None:
    # Given one that has not heard of a topic yet
    (tmp_path / "revision").write_text("7")
    (tmp_path / "1.leading").write_text("west")
    # When
    status, text = started(scene).page("/explain")
    # Then
    assert status == 200
    other = {"gateway": "gw-1.1", "revision": 8, "leading": "west"}
    assert json.loads(text) == {"gateway": "gw-1.0", "revision": 7, "leading": "east", "others": [other]}


def test_the_pages_cover_workers_that_answer_and_name_the_one_that_hangs(scene: Scene, tmp_path: Path) -> None:
    # Given
    (tmp_path / "revision").write_text("7")
    started(scene)
    os.kill(scene.pids(0)[0], signal.SIGSTOP)
    # When
    (_, connected), (_, explained) = scene.page("/connections"), scene.page("/explain")
    # Then
    silent = {"gw-1.0": "worker 0 does not answer"}
    assert [row["user"] for row in json.loads(connected)["connections"]] == ["1"]
    assert json.loads(connected)["unanswered"] == silent
    assert json.loads(explained) == {"gateway": "gw-1", "revision": 8, "leading": "east", "unanswered": silent}
    # And where all hang, that is all there is to say
    os.kill(scene.pids(1)[0], signal.SIGSTOP)
    assert scene.page("/connections") == (503, '{"error": "worker 0 does not answer; worker 1 does not answer"}\n')
