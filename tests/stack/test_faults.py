"""A small real stack: it serves, takes faults, and leaves no process, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from ha_core.wire.sasl import SecurityProfile
from stack import registry
from stack.cli import app
from stack.clients.confluent_settings import client_settings
from stack.errors import StackError
from stack.harness import Stack
from stack.processes import ProcessIdentity, descendants, identity

pytestmark = [pytest.mark.stack, pytest.mark.long("stack")]
_PATIENCE_S = 30.0
UP = (sys.executable, "-m", "stack", "up", "--cluster", "east=4.3.1")


@pytest.fixture(scope="module")
def small() -> Iterator[Stack]:
    """One cluster with SASL, no gateway."""
    with Stack.up({"east": "3.9.2"}, gateways=0, security="sasl") as stack:
        yield stack


def _client(stack: Stack) -> dict[str, str]:
    assert stack.service is not None
    account = client_settings(SecurityProfile("PLAIN", stack.service["user"], stack.service["password"]))
    return {"bootstrap.servers": stack.clusters["east"]["bootstrap"], **account}


def _produce(stack: Stack, topic: str, values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer({**_client(stack), "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(_PATIENCE_S) == 0
    assert failed == []


def _consume(stack: Stack, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**_client(stack), "group.id": f"read-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(_PATIENCE_S)
            assert message is not None, f"{len(values)} of {count} records after {_PATIENCE_S:.0f} s"
            if message.error() is None:
                values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def _state(stack: Stack, part: str) -> str:
    return str(next(entry["state"] for entry in stack.status() if entry["part"] == part))


def _everything(stack: Stack) -> list[ProcessIdentity]:
    guard = registry.find(stack.dir).guard
    identities = [identity(pid) for pid in [guard.pid, *descendants(guard.pid)]]
    return [process for process in identities if process is not None]


def _gone(processes: list[ProcessIdentity]) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while any(process.alive() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_broker_maps_its_classes_instead_of_reading_them(small: Stack) -> None:
    (pid,) = [part["pid"] for part in small.status() if part["part"].startswith("cluster/")]
    assert "/classes/kafka-3.9.2-" in Path(f"/proc/{pid}/maps").read_text("utf-8")
    assert "[warning][cds" not in small.logs("cluster/east")


def test_a_cluster_serves_producers_and_groups_directly(small: Stack) -> None:
    values = [b"%d" % number for number in range(100)]
    _produce(small, "served", values)
    assert _consume(small, "served", 100) == values


def test_a_killed_broker_stays_down_until_restart_and_keeps_its_records(small: Stack) -> None:
    # Given records
    _produce(small, "kept", [b"before"])
    # When the broker is killed
    small.kill("cluster/east")
    # Then it is down, and its restart keeps its address and data
    assert _state(small, "cluster/east/1") == "killed"
    with pytest.raises(StackError, match="is killed: start it with"):
        small.wait_ready("cluster/east")
    small.restart("cluster/east/1")
    assert _state(small, "cluster/east/1") == "ready"
    _produce(small, "kept", [b"after"])
    assert _consume(small, "kept", 2) == [b"before", b"after"]


def test_a_stopped_broker_ends_gracefully_and_stays_down_until_restart(small: Stack) -> None:
    small.stop("cluster/east")
    stopped = next(entry for entry in small.status() if entry["part"] == "cluster/east/1")
    assert (stopped["state"], stopped["exit_code"]) == ("ended", 143), "Java's exit code after SIGTERM"
    small.restart("cluster/east")
    assert _state(small, "cluster/east/1") == "ready"


def test_a_paused_part_neither_answers_nor_dies_and_serves_when_resumed(small: Stack) -> None:
    small.pause("cluster/east")
    pid = next(entry["pid"] for entry in small.status() if entry["part"] == "cluster/east/1")
    assert Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    with pytest.raises(StackError, match="is paused"):
        small.wait_ready("cluster/east")
    small.resume("cluster/east")
    _produce(small, "resumed", [b"on"])
    assert _consume(small, "resumed", 1) == [b"on"]


def test_an_unknown_part_is_refused_with_the_known_ones(small: Stack) -> None:
    with pytest.raises(StackError, match=r"no part 'gateway/1'; it has zookeeper, cluster/east/1"):
        small.kill("gateway/1")


def test_the_stack_commands_address_the_stack_of_their_folder(small: Stack) -> None:
    runner = CliRunner()
    status = runner.invoke(app, ["status", "--dir", str(small.dir), "--json"])
    assert [entry["part"] for entry in json.loads(status.stdout)] == ["zookeeper", "cluster/east/1"]
    logs = runner.invoke(app, ["logs", "cluster/east/1", "--dir", str(small.dir), "-n", "3"])
    assert len(logs.stdout.splitlines()) == 3
    other = runner.invoke(app, ["status", "--dir", str(small.dir / "parts")])
    assert other.exit_code == 1
    assert f"no stack is running in {small.dir / 'parts'}" in other.stderr


def test_two_stacks_run_at_once_and_a_killed_supervisor_leaves_no_process(small: Stack) -> None:
    # Given a second stack without a common port
    second = Stack.up({"east": "4.3.1"}, gateways=0)
    processes = _everything(second)
    ports = [{entry["port"] for entry in stack.status()} for stack in (small, second)]
    assert not ports[0] & ports[1]
    assert len(processes) == 4, "guard, supervisor, ZooKeeper, broker"
    # When its supervisor is killed
    os.kill(processes[1].pid, signal.SIGKILL)
    # Then none of its processes runs, and the other stack goes on
    assert _gone(processes)
    assert _state(small, "cluster/east/1") == "ready"
    assert [entry.root for entry in registry.running() if entry.root == second.dir] == []
    second.down()


def test_a_killed_guard_takes_its_stack_with_it() -> None:
    stack = Stack.up({"east": "4.3.1"}, gateways=0)
    processes = _everything(stack)
    os.kill(processes[0].pid, signal.SIGKILL)
    assert _gone(processes)
    stack.down()


_OWNER = """
import os, sys
from stack.harness import Stack
stack = Stack.up({"east": "4.3.1"}, gateways=0, say=lambda text: print(text, flush=True))
print(stack.dir, flush=True)
sys.stdin.read()
"""


def test_a_stack_ends_with_its_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdin=-1, stdout=-1, text=True) as owner:
        assert owner.stdout is not None
        folder = next(line.strip() for line in owner.stdout if line.startswith("/"))
        processes = _everything(Stack.attach(Path(folder)))
        owner.kill()
    assert _gone(processes)


def test_a_starter_killed_during_the_start_leaves_no_process(tmp_path: Path) -> None:
    # Given a start that has come as far as a running ZooKeeper
    command = [*UP, "--gateways", "0", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as starter:
        assert starter.stderr is not None
        for line in starter.stderr:
            if line.startswith("zookeeper is ready"):
                break
        guard = registry.find(tmp_path).guard
        processes = [process for process in map(identity, [guard.pid, *descendants(guard.pid)]) if process is not None]
        # When the starter is killed
        starter.kill()
    # Then all its processes end
    assert len(processes) >= 3
    assert _gone(processes)


def test_ctrl_c_ends_a_foreground_stack_and_removes_its_folder() -> None:
    # Given a stack in the foreground with a gateway that is ready
    command = [*UP, "--gateways", "1", "--foreground", "--json"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as starter:
        assert starter.stdout is not None
        document = json.loads("".join(iter(starter.stdout.readline, "}\n")) + "}")
        stack = Stack(document)
        processes = _everything(stack)
        assert stack.bootstrap == stack.gateways[0]["bootstrap"]
        # When it is killed and started again, it has the same address; then Ctrl-C
        stack.kill("gateway/1")
        stack.restart("gateway/1")
        assert stack.gateways[0]["pid"] != document["gateways"][0]["pid"]
        assert stack.bootstrap == document["bootstrap"]
        starter.send_signal(signal.SIGINT)
    # Then nothing runs and the temporary folder is gone
    assert starter.returncode == 130
    assert _gone(processes)
    assert not stack.dir.exists()


def test_a_part_that_dies_while_starting_is_named_with_its_last_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a Java option that no Java takes
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "--no-such-option")
    # When a stack is started
    with pytest.raises(StackError) as caught:
        Stack.up({"east": "4.3.1"}, gateways=0, directory=tmp_path / "stack")
    # Then the error has the part, its last output and its log, and no process runs
    text = str(caught.value)
    assert "no-such-option" in text
    assert str(tmp_path / "stack" / "logs") in text
    with pytest.raises(StackError, match="no stack is running in"):
        registry.find(tmp_path / "stack")


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(StackError, match=r"holds thesis\.txt"):
        Stack.up({"east": "4.3.1"}, gateways=0, directory=tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"
