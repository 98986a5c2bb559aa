"""docker-compose.yaml as Compose reads it with the settings of .env.example."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yaml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
VARIABLE = re.compile(r"\$\{(?P<name>[A-Z0-9_]+):-(?P<default>[^}]*)}")

_TEXT = COMPOSE_FILE.read_text("utf-8")
DEFAULTS = {found["name"]: found["default"] for found in VARIABLE.finditer(_TEXT)}
COMPOSE: dict[str, Any] = yaml.safe_load(VARIABLE.sub(lambda found: found["default"], _TEXT))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GATEWAYS = [name for name in SERVICES if name.startswith("gateway-")]
AIRFLOW = [name for name in SERVICES if name.startswith("airflow-")]
ENDING = {"airflow-migrate", "switchyard"}
"""Services that do their work and end."""


def gateway_config(service: str) -> dict[str, Any]:
    """The configuration that a gateway gets in its container."""
    (used,) = SERVICES[service]["configs"]
    document: dict[str, Any] = yaml.safe_load(COMPOSE["configs"][used["source"]]["content"])
    return document


def at_secrets(document: Any, folder: Path) -> Any:
    """The document with /run/secrets/NAME replaced by the files that Compose would mount there."""
    if isinstance(document, dict):
        return {key: at_secrets(value, folder) for key, value in document.items()}
    if isinstance(document, str) and document.startswith("/run/secrets/"):
        return str(folder / Path(COMPOSE["secrets"][document.removeprefix("/run/secrets/")]["file"]).name)
    return document


def health_check(service: str) -> list[str]:
    """The command of a service's health check."""
    test: list[str] = SERVICES[service]["healthcheck"]["test"]
    kind, *command = test
    assert kind == "CMD"
    return command
