"""A gateway with its container's configuration, command and health checks from the Compose file, on real ZooKeeper."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from stack.java import find_java
from stack.ports import PortBlock, claim
from stack.zookeeper_part import ZooKeeperPart
from tests.deploy.compose import ROOT, SERVICES, at_secrets, gateway_config, health_check
from tests.kit.waiting import until

READY_S = 60.0


@pytest.fixture(scope="module")
def ports() -> PortBlock:
    return claim()


@pytest.fixture(scope="module")
def zookeeper(ports: PortBlock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperPart]:
    part = ZooKeeperPart(tmp_path_factory.mktemp("zookeeper"), ports.next_port(), find_java())
    part.prepare()
    with subprocess.Popen(part.command().argv, cwd=part.home, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as p:
        yield part
        p.kill()


def becomes(code: int, command: list[str]) -> str:
    """Output of a health check when it finally ends with `code`."""
    deadline = time.monotonic() + READY_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == code:
            return done.stdout + done.stderr
        assert time.monotonic() < deadline, f"{command} ends with {done.returncode}: {done.stderr}"
        time.sleep(0.1)


def until_it_records(http: int) -> None:
    until(
        lambda: "switchyard_gateway_records_facts 1.0" in httpx.get(f"http://127.0.0.1:{http}/metrics").text,
        timeout_s=READY_S,
    )


def on_this_machine(command: list[str], port: int) -> list[str]:
    here = {"python": sys.executable, "/opt/switchyard/healthy.py": str(ROOT / "deploy" / "healthy.py")}
    return [re.sub(r"(127\.0\.0\.1[:/])\d+", rf"\g<1>{port}", here.get(word, word)) for word in command]


def test_the_health_check_of_zookeeper_detects_whether_it_serves(zookeeper: ZooKeeperPart, ports: PortBlock) -> None:
    check = health_check("zookeeper")

    becomes(0, on_this_machine(check, zookeeper.port))
    becomes(1, on_this_machine(check, ports.next_port()))  # an unused port


def test_a_gateway_container_becomes_healthy_without_clusters_and_stops_on_request(
    zookeeper: ZooKeeperPart, ports: PortBlock, secrets: Path, tmp_path: Path
) -> None:
    # Given its container's configuration, on ports of this test
    config = at_secrets(gateway_config("gateway-1"), secrets)
    http = ports.next_port()
    config["zookeeper"]["hosts"] = zookeeper.address
    config["listen"] |= {"host": "127.0.0.1", "port": ports.next_port()}
    config["http"] |= {"host": "127.0.0.1", "port": http}
    config["nodes"]["first_port"] = ports.take_range(config["nodes"]["count"])
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(config))
    *command, _ = SERVICES["gateway-1"]["command"]
    check = on_this_machine(health_check("gateway-1"), http)
    before = becomes(1, check)

    # When its container's command is run
    with subprocess.Popen([sys.executable, *command[1:], tmp_path / "gateway.yaml"], cwd=ROOT) as gateway:
        becomes(0, check)
        until_it_records(http)
        gateway.terminate()
        code = gateway.wait(30)

    # Then it became healthy, was the only process there to record facts, and ended gracefully on request
    assert "refused" in before
    assert code == 0


def test_a_component_is_healthy_only_if_its_report_has_it(tmp_path: Path) -> None:
    from deploy import healthy

    report = tmp_path / "health"
    report.write_text('{"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}}')

    assert healthy.main(report.as_uri(), "scheduler") == ""
    assert "triggerer is unhealthy" in healthy.main(report.as_uri(), "triggerer")
    assert "KeyError" in healthy.main(report.as_uri(), "dag_processor")
