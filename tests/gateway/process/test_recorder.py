"""Election of the gateway that records facts of clusters, and its helper process; small processes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.config import Config
from gateway.process.helper_processes import RecorderProcess
from ha_core.kafka.security import profiles
from ha_core.model import GatewayRecord

LOOKING = """
import json, os, sys, time
told = json.loads(sys.stdin.readline())
def say(cluster, error=""):
    print(json.dumps({"looks": [{"cluster": cluster, "error": error}]}), flush=True)
"""
SETTINGS = {"id": "gw-1", "zookeeper": {"hosts": "zk:2181"}, "authentication": {"anonymous": True}}


def gateway(name: str, able: bool = True) -> GatewayRecord:
    return GatewayRecord(id=name, host="h", port=1, node_id=1, records_facts=able)


# -- the election


@pytest.mark.parametrize(
    ("records", "first"),
    [
        ([], []),
        ([gateway("gw-2"), gateway("gw-1"), gateway("gw-3")], ["gw-1"]),
        ([gateway("gw-1", able=False), gateway("gw-2")], ["gw-2"]),
        ([gateway("gw-1", able=False)], []),
    ],
)
def test_the_first_live_gateway_that_can_record_does(records: list[GatewayRecord], first: list[str]) -> None:
    assert RecorderProcess.elected(records) == first


def test_a_gateway_of_an_earlier_version_is_never_elected() -> None:
    earlier = GatewayRecord.from_bytes(b'{"id": "gw-0", "host": "h", "port": 1, "node_id": 1}', "/gateways/gw-0")

    assert RecorderProcess.elected([earlier, gateway("gw-1")]) == ["gw-1"]


def test_the_process_gets_the_gateways_accounts_on_its_standard_input(tmp_path: Path) -> None:
    from gateway.config import load

    (tmp_path / "password").write_text("s3cret\n")
    (tmp_path / "gateway.yaml").write_text(
        "{id: gw-1, zookeeper: {hosts: 'zk:2181', root: /ha}, authentication: {anonymous: true}, security_profiles:"
        " {none: {}, sasl: {mechanism: PLAIN, username: switchyard, password_file: password}}}"
    )
    config: Config = load(tmp_path / "gateway.yaml")

    told = json.loads(RecorderProcess(config, lambda: None).order)

    assert (told["zookeeper"], told["root"], told["every_s"]) == ("zk:2181", "/ha", 60)
    security_profiles = profiles(told["profiles"], "the gateway")
    assert (security_profiles["sasl"].username, security_profiles["sasl"].password) == ("switchyard", "s3cret")
    assert security_profiles["none"].mechanism is None


# -- the process


class Scene:
    """A recorder whose process is the Python text `does`, after LOOKING; it runs while `play` does."""

    def __init__(self, does: str, every_s: int = 60, first_pause_s: float = 1.0, silent_s: float | None = None) -> None:
        self.changes: list[bool] = []
        config = Config.model_validate({**SETTINGS, "record_facts_s": every_s})
        self.recorder = RecorderProcess(config, lambda: self.changes.append(self.recorder.able))
        self.recorder.command = (sys.executable, "-S", "-c", LOOKING + does)
        self.recorder.first_pause_s = first_pause_s
        if silent_s is not None:
            self.recorder.silent_s = silent_s

    def play(self, scene: Callable[[Scene], Awaitable[None]]) -> None:
        async def run() -> None:
            kept = asyncio.create_task(self.recorder.keep())
            try:
                await scene(self)
            finally:
                kept.cancel()
                await asyncio.gather(kept, return_exceptions=True)

        asyncio.run(run())

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


def alive(file: Path) -> bool:
    """Whether the process that wrote its pid there lives."""
    try:
        pid = file.read_text()  # empty: it has begun to write
        return bool(pid) and not Path(f"/proc/{pid}/stat").read_text().partition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_runs_until_this_gateway_is_elected_and_nothing_when_it_no_longer_is(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async def scene(it: Scene) -> None:
        await asyncio.sleep(0.1)
        assert not file.exists()

        it.recorder.want(True)
        await it.until(lambda: "east" in it.recorder.looked_at)
        assert it.recorder.running
        assert alive(file)
        assert time.time() - it.recorder.looked_at["east"] < 20

        it.recorder.want(False)
        await it.until(lambda: not it.recorder.running)
        await it.until(lambda: not alive(file))
        assert it.changes == []

        it.recorder.want(True)
        await it.until(lambda: alive(file))

    Scene(f"open({str(file)!r}, 'w').write(str(os.getpid())); say('east'); time.sleep(60)").play(scene)

    assert not alive(file)  # it ended with the gateway


def test_the_state_that_an_earlier_process_has_told_is_not_shown_as_that_of_the_next(tmp_path: Path) -> None:
    file = tmp_path / "told"
    tells = f"""
if not os.path.exists({str(file)!r}):
    open({str(file)!r}, 'w').close()
    print('{{"state": {{"approvals": 3}}, "again_s": 15.0}}', flush=True)
time.sleep(60)
"""

    async def scene(it: Scene) -> None:
        it.recorder.want(True)
        await it.until(lambda: it.recorder.state is not None)
        assert it.recorder.state == {"approvals": 3}
        assert time.time() - it.recorder.state_at < 20

        it.recorder.want(False)
        await it.until(lambda: not it.recorder.running)
        it.recorder.want(True)
        await it.until(lambda: it.recorder.running)
        assert it.recorder.state is None

    Scene(tells).play(scene)


async def three_deaths(it: Scene) -> None:
    it.recorder.want(True)
    await it.until(lambda: len(it.changes) >= 6)


def pauses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message.rpartition("; ")[2] for record in caplog.records if record.levelname == "WARNING"][:3]


def test_a_process_that_dies_is_started_again_later_and_later_and_meanwhile_another_gateway_may_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Scene("sys.exit(3)", first_pause_s=0.02)
    it.play(three_deaths)

    assert it.changes[:6] == [False, True] * 3
    assert "has ended: exit code 3; again in 0.02 s" in caplog.text
    assert pauses(caplog) == ["again in 0.02 s", "again in 0.04 s", "again in 0.08 s"]


def test_the_pause_is_short_again_after_a_process_that_has_looked(caplog: pytest.LogCaptureFixture) -> None:
    Scene("say('east')", first_pause_s=0.02).play(three_deaths)

    assert pauses(caplog) == ["again in 0.02 s"] * 3


@pytest.mark.parametrize("does", ["time.sleep(60)", "print('{}', flush=True); time.sleep(60)"], ids=["nothing", "else"])
def test_a_silent_or_faulty_process_is_replaced(does: str) -> None:
    Scene(does, silent_s=0.2, first_pause_s=0.01).play(three_deaths)


def test_a_cluster_that_does_not_answer_is_logged_once_and_its_last_reading_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(it: Scene) -> None:
        it.recorder.want(True)
        await it.until(lambda: "west" in it.recorder.looked_at)

    it = Scene("say('east'); say('east', 'gone'); say('east', 'gone'); say('west'); time.sleep(60)")
    it.play(scene)

    assert "east" in it.recorder.looked_at
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "east could not be read; its recorded facts stay: gone"
    ]


def test_a_missing_program_is_tried_again() -> None:
    it = Scene("", first_pause_s=0.01)
    it.recorder.command = ("/nowhere/python",)
    it.play(three_deaths)


def test_a_gateway_configured_not_to_record_is_not_able_to() -> None:
    assert not Scene("", every_s=0).recorder.able
    assert Scene("").recorder.able
