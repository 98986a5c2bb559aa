"""`switchyard mirror-client` with a Java client's properties, against a scripted broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT, SUCCESS
from ha_core.wire.codes import ApiKey
from tests.kafka.scripted_broker import answered, broker, header_of, listening

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";'
KEYS = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN}\n"
VERSIONS = {
    **{ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (1, 1)},
    **{ApiKey.SASL_HANDSHAKE: (1, 1), ApiKey.SASL_AUTHENTICATE: (1, 1)},
}
USAGE = 2


@pytest.fixture
def port() -> Iterator[int]:
    """Port of a broker that has the heartbeats of a cluster, and answers only the account alice."""

    def then(frame: bytes) -> bytes | None:
        key = header_of(frame).api_key
        if key == ApiKey.SASL_HANDSHAKE:
            return answered(frame, {"mechanisms": ["PLAIN"]})
        if key == ApiKey.SASL_AUTHENTICATE:
            return answered(frame, {"auth_bytes": b""}) if b"\0alice\0s3cret" in frame else None
        here = {"node_id": 1, "host": "127.0.0.1", "port": 1, "rack": None}
        topics = [{"name": "primary.heartbeats", "partitions": []}]
        return answered(frame, {"brokers": [here], "controller_id": 1, "topics": topics})

    with listening(broker(VERSIONS, then)) as found:
        yield found


def ask(*words: str) -> Any:
    return CliRunner().invoke(build(), ["mirror-client", "upstream-clusters", *words, "--timeout-s", "20"])


def test_a_java_clients_file_is_accepted_unchanged(port: int, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{KEYS}bootstrap.servers=127.0.0.1:{port}\nclient.rack=a\ngroup.id=g\n")
    ended = ask("--command-config", str(file))
    assert (ended.exit_code, ended.stdout) == (SUCCESS, "primary\n")
    assert ended.stderr == f"{file}: client.rack has no effect: records are read from leaders, in any rack\n"


def test_the_option_bootstrap_wins_over_the_file(port: int, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{KEYS}bootstrap.servers=127.0.0.1:1\n")
    assert ask("--command-config", str(file), "--bootstrap", f"127.0.0.1:{port}").stdout == "primary\n"


def test_references_in_the_file_are_resolved(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALICES_PASSWORD", "s3cret")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    file = tmp_path / "client.properties"
    file.write_text(
        f"config.providers=env\nconfig.providers.env.class={provider}\nbootstrap.servers=127.0.0.1:{port}\n"
        + KEYS.replace("s3cret", "${env:ALICES_PASSWORD}")
    )
    assert ask("--command-config", str(file)).stdout == "primary\n"


def test_librdkafkas_own_properties_are_accepted_but_not_together_with_a_java_clients(
    port: int, tmp_path: Path
) -> None:
    file = tmp_path / "rdkafka.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=s3cret\n"
    )
    assert ask("--config", str(file), "--bootstrap", f"127.0.0.1:{port}").stdout == "primary\n"
    ended = ask("--config", str(file), "--command-config", str(file))
    assert ended.exit_code == USAGE
    assert "--command-config (a Java client's" in ended.stderr
    assert ask("--config", str(file)).exit_code == USAGE
    assert ask().exit_code == USAGE


def test_all_keys_that_cannot_be_used_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(KEYS.replace("PLAIN\n", "GSSAPI\n") + "request.timeout.ms=soon\n")
    ended = ask("--command-config", str(file))
    assert ended.exit_code == BAD_INPUT
    for key in ("bootstrap.servers ", "request.timeout.ms=soon ", "sasl.mechanism=GSSAPI "):
        assert f"- {key}" in ended.stderr
    assert "s3cret" not in ended.stderr
