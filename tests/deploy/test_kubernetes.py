"""The Helm chart and the systemd units: what they render to, and that it fits the programs.

`rendered/*.yaml` is what `helm template` makes of the chart. Where `helm` is installed, the test renders it anew.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "switchyard"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
RENDERED = Path(__file__).parent / "rendered"
VALUES = {
    "default": ["zookeeper.hosts=zk:2181"],
    "everything": [
        "zookeeper.hosts=zk:2181",
        "zookeeper.securitySecret=zookeeper",
        "clusterSecuritySecret=clusters",
        "image.registry=registry.example/team",
        "gateway.advertise=node-ip",
        "gateway.hostNetwork=true",
        "gateway.tls=true",
        "gateway.config.limits.max_connections=5000",
        "mirror.enabled=true",
        "flows.enabled=true",
        "platform.enabled=true",
        "networkPolicy.enabled=true",
        "podMonitor.enabled=true",
    ],
}
ADDRESSES = {"POD_NAME": "moves-gateway-0", "NODE_IP": "192.0.2.7", "NODE_NAME": "node-7"}


def render(name: str) -> str:
    words = [word for value in VALUES[name] for word in ("--set", value)]
    command = ["helm", "template", "moves", str(CHART), "--namespace", "kafka", "--kube-version", "1.31.0", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def manifests(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text("utf-8")) if one]


def kinds(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in manifests(name):
        found.setdefault(one["kind"], []).append(one["metadata"]["name"])
    return found


def containers(name: str) -> Iterator[dict[str, Any]]:
    for one in manifests(name):
        if "template" in one.get("spec", {}):
            yield from one["spec"]["template"]["spec"]["containers"]


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed: the committed rendering is checked")
@pytest.mark.parametrize("name", VALUES)
def test_the_committed_manifests_are_those_of_the_chart(name: str) -> None:
    assert render(name) == (RENDERED / f"{name}.yaml").read_text("utf-8")


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize(
    ("value", "named"), [("zookeeper.hosts=", "hosts"), ("gateway.advertise=node-ip", "hostNetwork")]
)
def test_values_that_cannot_work_are_refused_by_their_name(value: str, named: str) -> None:
    command = [
        "helm",
        "template",
        "moves",
        str(CHART),
        "--kube-version",
        "1.31.0",
        "--set",
        "zookeeper.hosts=zk:2181",
        "--set",
        value,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert named in done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_a_gateway_accepts_the_configuration_that_its_pod_makes(name: str, tmp_path: Path) -> None:
    (config,) = (one["data"]["gateway.yaml"] for one in manifests(name) if one["kind"] == "ConfigMap")
    for token, value in ADDRESSES.items():
        config = config.replace(token, value)
    (tmp_path / "users.yaml").write_text('orders-app: "a-password-of-a-test"\n')
    (tmp_path / "phantoms").write_text("0123456789abcdef0123456789abcdef\n")
    document = yaml.safe_load(config.replace("/run/secrets/gateway", str(tmp_path)))
    document.pop("tls", None)  # its certificate is another test's
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "gateway", "--config", str(file), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert "gateway moves-gateway-0 on 0.0.0.0:9092" in done.stdout, done.stderr
    host = {"default": "moves-gateway-0.moves-gateway.kafka.svc", "everything": "192.0.2.7"}[name]
    assert document["listen"]["advertised_host"] == host


def test_gateways_keep_their_ids_and_go_one_at_a_time() -> None:
    (gateways,) = (one for one in manifests("default") if one["kind"] == "StatefulSet")
    (budget,) = (one for one in manifests("default") if one["kind"] == "PodDisruptionBudget")
    assert gateways["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert budget["spec"]["maxUnavailable"] == 1
    labels = gateways["spec"]["template"]["metadata"]["labels"]
    assert gateways["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_parts_are_rendered_only_if_they_are_wanted() -> None:
    assert "Deployment" not in kinds("default")
    assert kinds("everything")["Deployment"] == ["moves-flows", "moves-mirror", "moves-platform"]


@pytest.mark.parametrize("name", VALUES)
def test_containers_run_without_rights_and_find_their_volumes(name: str) -> None:
    for one in manifests(name):
        if "template" not in one.get("spec", {}):
            continue
        pod = one["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def programs() -> Iterator[tuple[str, list[str]]]:
    """(place, the words of a command)"""
    for container in containers("everything"):
        words = [str(word) for word in container["command"]]
        if words[:2] == ["sh", "-ec"]:
            words = shlex.split(words[2].rpartition("exec ")[2])
        yield f"chart {container['name']}", words
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if line.startswith("ExecStart="):
                yield unit.name, shlex.split(line.partition("=")[2].replace("/opt/switchyard/venv/bin/", ""))


@pytest.mark.parametrize(("place", "words"), [pytest.param(*one, id=one[0]) for one in programs()])
def test_a_command_of_a_deployment_has_only_options_that_exist(place: str, words: list[str]) -> None:
    program = [sys.executable if words[0] == "python" else str(Path(sys.executable).with_name(words[0])), *words[1:]]
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    end = next((at for at, word in enumerate(program) if at and word.startswith(("-", "/")) and word != "-m"), None)
    told = subprocess.run([*program[:end], "--help"], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120)
    for option in options:
        assert option in told.stdout, f"{place}: {option}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text("utf-8").replace("/opt/switchyard/venv/bin/", f"{Path(sys.executable).parent}/")
    copy = tmp_path / unit.name.replace("@.", "@gw-1.")
    copy.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if unit.name.split("@")[0].split(".")[0] in line]
    assert faults == []
