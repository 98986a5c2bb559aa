"""The Compose file is complete: its form is valid, every reference exists, and every service has health check, limits
and restarts.

`compose-spec.json` is the Compose Specification's schema from github.com/compose-spec/compose-go v2.9.1
(Copyright 2020 The Compose Specification Authors, Apache-2.0).
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.deploy.compose import COMPOSE, DEFAULTS, ENDING, GATEWAYS, ROOT, SERVICES, gateway_config, health_check

SCHEMA = Draft7Validator(json.loads((Path(__file__).parent / "compose-spec.json").read_text("utf-8")))
LASTING = sorted(set(SERVICES) - ENDING)


def test_the_compose_file_follows_the_compose_specification() -> None:
    assert [f"{list(error.path)}: {error.message}" for error in SCHEMA.iter_errors(COMPOSE)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"comand": ["true"]},
        {"healthcheck": {"test": ["CMD", "true"], "every": "5s"}},
        {"depends_on": {"zookeeper": {"condition": "healthy"}}},
        {"deploy": {"resources": {"limits": {"mem": "1g"}}}},
    ],
)
def test_a_planted_violation_of_the_compose_specification_is_found(change: dict[str, Any]) -> None:
    planted = COMPOSE | {"services": SERVICES | {"gateway-1": SERVICES["gateway-1"] | change}}

    assert not SCHEMA.is_valid(planted)


def test_the_example_settings_are_the_defaults_of_the_compose_file() -> None:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    assert example == DEFAULTS
    assert "${" not in json.dumps(COMPOSE)  # every variable has a default, so the file works without .env


@pytest.mark.parametrize("kind", ["configs", "secrets", "volumes"])
def test_services_use_exactly_the_defined_configs_secrets_and_volumes(kind: str) -> None:
    used = set()
    for service in SERVICES.values():
        for entry in service.get(kind, ()):
            if isinstance(entry, dict):
                used |= {entry["source"]} if entry.get("type") != "bind" else set()
            else:
                used.add(entry.partition(":")[0])

    assert used == set(COMPOSE[kind])


def test_the_secrets_script_makes_every_secret_file_private_and_keeps_existing_ones(secrets: Path) -> None:
    import subprocess

    # Given the files that services read, and those that the script has made
    binds = [volume["source"] for s in SERVICES.values() for volume in s.get("volumes", ()) if isinstance(volume, dict)]
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} | {Path(bind).name for bind in binds}
    made = {file.name: file.read_text() for file in secrets.iterdir()}
    # When the script is run again
    again = subprocess.run(["sh", ROOT / "deploy" / "secrets.sh", secrets], check=True, capture_output=True)
    # Then it has made each of them, private and different, and changed none
    assert named == set(made)
    assert again.stdout == b""
    assert {file.name: file.read_text() for file in secrets.iterdir()} == made
    assert {file.stat().st_mode & 0o777 for file in secrets.iterdir()} == {0o600}
    assert len(set(made.values())) == len(made)


def test_secrets_are_never_committed_nor_sent_to_a_build() -> None:
    ignored = (ROOT / "deploy" / "secrets" / ".gitignore").read_text().splitlines()
    context = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    assert [line for line in ignored if not line.startswith("#")] == ["*", "!.gitignore"]
    assert "*" in context
    assert not [line for line in context if "secrets" in line and line.startswith("!")]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_until_its_dependencies_are_healthy_or_completed(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        if other in ENDING:
            assert how["condition"] == "service_completed_successfully"
        else:
            assert how["condition"] == "service_healthy"
            assert health_check(other)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_pinned_image_and_limits_and_no_root_or_privileges(name: str) -> None:
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]

    assert set(limits) == {"cpus", "memory"}
    assert str(service["user"]).partition(":")[0] not in {"", "0", "root"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if "build" in service:
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        assert service["image"] == f"switchyard-{service['build']['target']}:dev"
    else:
        assert re.search(r":v?\d+\.\d+", service["image"])


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_service_has_a_health_check_and_restarts(name: str) -> None:
    assert health_check(name)
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_only_trial_clusters_and_tools_need_a_profile() -> None:
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}

    assert profiles == {"kafka-east": ["try"], "kafka-west": ["try"], "switchyard": ["tools"]}


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateways_ports_are_published_as_advertised(name: str) -> None:
    # Given the ports that a gateway listens on
    config = gateway_config(name)
    first = config["nodes"]["first_port"]
    nodes = f"{first}-{first + config['nodes']['count'] - 1}"
    http = config["http"]["port"]
    # When its service is read
    # Then it publishes these ports
    assert SERVICES[name]["ports"] == [
        f"{config['listen']['port']}:{config['listen']['port']}",
        f"{nodes}:{nodes}",
        f"127.0.0.1:{http}:{http}",
    ]
    assert health_check(name)[-1] == f"http://127.0.0.1:{http}/readyz"


def test_no_two_services_publish_the_same_port() -> None:
    published: list[int] = []
    for service in SERVICES.values():
        for port in service.get("ports", ()):
            first, _, last = port.rsplit(":", 2)[-2].partition("-")
            published += range(int(first), int(last or first) + 1)

    assert len(published) == len(set(published))
