"""The configuration file: valid content, and error texts."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from gateway.__main__ import main
from gateway.authentication.accounts import LoginAccount
from gateway.config import Config, ConfigError, load, open_passwords
from ha_core.operations.access.user_entries import entry
from ha_core.store.security import StoreSecurity, parse
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority
from tests.gateway.authentication.signing import key_set

SMALLEST: dict[str, Any] = {
    "id": "gw-1",
    "zookeeper": {"hosts": "127.0.0.1:2181"},
    "authentication": {"anonymous": True},
}


def written(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def fault(folder: Path, document: dict[str, Any]) -> str:
    file = written(folder, document)
    with pytest.raises(ConfigError) as caught:
        load(file)
    text = str(caught.value)
    assert text.startswith(str(folder))
    return text.replace(str(folder) + "/", "")


def test_the_smallest_file_gives_the_documented_defaults(tmp_path: Path) -> None:
    config = load(written(tmp_path, SMALLEST))

    assert config.zookeeper.root == "/switchyard"
    assert (config.zookeeper.session_timeout_ms, config.zookeeper.lease_ms) == (6000, 3000)
    assert (config.nodes.first_port, config.nodes.count) == (20_000, 1000)
    assert config.record_facts_s == 60
    assert config.authentication.anonymous
    assert config.profiles["none"].mechanism is None
    assert config.limits.wire().max_request_bytes == 104_857_600


def test_users_and_passwords_come_from_files_beside_the_configuration_and_do_not_show_in_print(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("alice: wonder\n'1001': 'number'\n")
    (tmp_path / "service-password").write_text("s3cret\n")
    document = SMALLEST | {
        "authentication": {"users_file": "users.yaml"},
        "security_profiles": {
            "none": {},
            "sasl": {"mechanism": "PLAIN", "username": "switchyard", "password_file": "service-password"},
        },
    }

    config = load(written(tmp_path, document))

    assert config.authentication.users == {"alice": LoginAccount("wonder"), "1001": LoginAccount("number")}
    assert config.profiles["sasl"].password == "s3cret"
    for shown in (repr(config), config.model_dump_json()):
        assert "wonder" not in shown
        assert "s3cret" not in shown


def test_a_loaded_configuration_cannot_be_changed(tmp_path: Path) -> None:
    config = load(written(tmp_path, SMALLEST))

    with pytest.raises(ValueError, match="frozen"):
        config.id = "gw-2"


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"id": None}, "gateway.yaml: id: None: Input should be a valid string"),
    ({"id": "a b"}, "gateway.yaml: id: 'a b': String should match pattern"),
    ({"authentication": {}}, "gateway.yaml: authentication: no client can log in"),
    ({"zookeeper": {}}, "gateway.yaml: zookeeper.hosts: missing; add it"),
    ({"listen": {"port": 0}}, "gateway.yaml: listen.port: 0: Input should be greater than or equal to 1"),
    ({"listen": {"prot": 1}}, "gateway.yaml: listen.prot: 1: no such key here; known keys are host, port, advertised"),
    (
        {"security_profiles": {"x": {"user": "a"}}},
        "gateway.yaml: security_profiles: profile x: user: no such key. "
        "Known: mechanism, password_file, principal, tls, user",
    ),
    (
        {"zookeeper": {"hosts": "z:1", "session_timeout_ms": 4000, "lease_ms": 4000}},
        "gateway.yaml: zookeeper: lease_ms=4000 must be below session_timeout_ms=4000; half of it is a good value",
    ),
    ({"nodes": {"first_port": 65_000, "count": 1000}}, "first_port=65000 + count=1000 passes port 65535; lower one"),
    ({"listen": {"port": 20_005}}, "listen.port=20005 lies among the ports of virtual nodes (20000 to 20999)"),
    ({"http": {"port": 19_092}}, "listen.port and http.port are both 19092"),
    ({"authentication": {"anonymous": False}}, "authentication: no client can log in: give users_file"),
    ({"authentication": {"users_file": "none.yaml"}}, "authentication.users_file: none.yaml: No such file"),
    ({"security_profiles": {"s": {"mechanism": "PLAIN"}}}, "profile s: username None is not a name"),
    ({"security_profiles": {"s": {"mechanism": "PLAIN", "username": "u"}}}, "profile s: give password_file."),
    ({"security_profiles": {"s": {"username": "u"}}}, "username needs a mechanism. Add `mechanism: PLAIN`"),
    ({"limits": {"max_connections": "many"}}, "limits.max_connections: 'many': Input should be a valid integer"),
    ({"record_facts_s": -1}, "record_facts_s: -1: Input should be greater than or equal to 0; correct the value"),
    ({"tls": {}}, "gateway.yaml: tls.certificate_file: missing; add it"),
    (
        {"tls": {"certificate_file": "c", "cafile": "x"}},
        "gateway.yaml: tls.cafile: 'x': no such key here; known keys are certificate_file, key_file, key_password_file",
    ),
    ({"tls": {"certificate_file": "none.pem"}}, "none.pem: No such file or directory; give the path of a readable"),
    ({"tls": {"certificate_file": "c", "client_certificates": "required"}}, "tls: client_certificates=required and"),
    (
        {"tls": {"certificate_file": "c", "client_certificates": "optional", "client_ca_file": "c"}}
        | {"authentication": {}},
        "gateway.yaml: authentication: no client can log in",
    ),
    ({"tls": {"certificate_file": "c", "principal_rules": ["DEFAULT"]}}, "tls: principal_rules are of clients'"),
    ({"tls": {"certificate_file": "c", "principal_rules": ["CN=(.*)"]}}, "tls.principal_rules: 'CN=(.*)' is no rule"),
    ({"zookeeper": {"hosts": "z:1", "tls": {"ca": "x"}}}, "gateway.yaml: zookeeper: tls: ca: no such key. Known: ca_f"),
    ({"zookeeper": {"hosts": "z:1", "tls": {"ca_file": "none.pem"}}}, "none.pem: No such file or directory; give the"),
    ({"zookeeper": {"hosts": "z:1", "username": "u"}}, "zookeeper: username and password_file belong together"),
    (
        {"zookeeper": {"hosts": "z:1", "username": "u", "password_file": "none"}},
        "zookeeper: password_file none: No such file or directory",
    ),
    ({"log": {"level": "loud"}}, "log.level: 'loud': Input should be 'debug', 'info', 'warning' or 'error'"),
]


@pytest.mark.parametrize(("change", "expected"), FAULTS, ids=[text[:60] for _, text in FAULTS])
def test_a_fault_is_named_with_its_file_key_value_and_remedy(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    assert expected in fault(tmp_path, SMALLEST | change)


def test_every_fault_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    text = fault(tmp_path, SMALLEST | {"zookeeper": {"root": "x"}, "zoned": 1})

    assert [line.split(": ")[1] for line in text.splitlines()] == ["zookeeper.hosts", "zookeeper.root", "zoned"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("id: gw-1\nlisten: {port: [}\n", r"gateway\.yaml: line 2, column 17: .*; correct the YAML there"),
        ("- id\n", "holds list; write `key: value` lines"),
    ],
    ids=["broken YAML", "a list"],
)
def test_a_file_that_is_no_mapping_is_refused_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=fault):
        load(file)


@pytest.mark.parametrize("content", ["alice: 17\n", "12: x\n", "'': x\n", "alice:\n"])
def test_users_whose_name_or_password_is_not_text_are_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "users.yaml").write_text(content)

    text = fault(tmp_path, SMALLEST | {"authentication": {"users_file": "users.yaml"}})

    assert text.startswith("users.yaml: ")
    assert "17" not in text


def test_a_password_of_the_gateway_in_the_file_itself_is_refused_without_showing_it(tmp_path: Path) -> None:
    profile = {"mechanism": "PLAIN", "username": "switchyard", "password": "s3cret"}

    text = fault(tmp_path, SMALLEST | {"security_profiles": {"none": {}, "sasl": profile}})

    assert text.startswith("gateway.yaml: security_profiles: profile sasl: a password does not belong in this file; ")
    assert text.endswith("write it into a file of its own and name that: `password_file: …`")
    assert "s3cret" not in text


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    profile = {"mechanism": "PLAIN", "username": "switchyard", "password_file": "password"}

    text = fault(tmp_path, SMALLEST | {"security_profiles": {"sasl": profile}})

    assert "security_profiles: profile sasl: the password is empty" in text


def test_certificates_and_passwords_of_zookeeper_come_from_files_beside_the_configuration(tmp_path: Path) -> None:
    # Given files of TLS, for clients and for ZooKeeper
    authority = Authority(tmp_path)
    authority.issue("gateway", ["127.0.0.1"])
    (tmp_path / "password").write_text("s3cret\n")
    own = {"certificate_file": "gateway.pem", "key_file": "gateway.key"}
    clients = {"client_certificates": "required", "client_ca_file": "ca.pem", "principal_rules": ["DEFAULT"]}
    zookeeper = {"hosts": "z:1", "tls": {"ca_file": "ca.pem", **own}, "username": "u", "password_file": "password"}
    # When they are read, and certificates alone say who a client is
    config = load(
        written(
            tmp_path,
            SMALLEST | {"tls": own | clients | {"ca_file": "ca.pem"}, "authentication": {}, "zookeeper": zookeeper},
        )
    )
    # Then they are found beside it
    assert config.tls is not None
    certificate, key, ca = (str(tmp_path / name) for name in ("gateway.pem", "gateway.key", "ca.pem"))
    assert config.tls.peers == TlsFiles(ca, certificate, key)
    assert config.tls.server.context().verify_mode is ssl.CERT_REQUIRED
    assert config.zookeeper.security == StoreSecurity(TlsFiles(ca, certificate, key), "u", "s3cret")
    assert "s3cret" not in repr(config)
    # And helper processes get the same
    assert parse(config.zookeeper.for_helpers, "told", Path("/elsewhere")) == config.zookeeper.security


def test_the_documented_configuration_names_every_key_there_is() -> None:
    text = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
    documented = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])

    assert documented.keys() == Config.model_fields.keys()
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            assert documented[name].keys() == section.model_fields.keys(), name


OAUTH = {"issuer": "https://i", "audience": ["kafka"], "jwks": "keys.json"}


def test_keys_of_users_the_shared_secret_and_the_issuers_keys_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(yaml.safe_dump(entry("alice", "wonder", 4096)))
    (tmp_path / "phantoms").write_text("sixteen random ones\n")
    (tmp_path / "keys.json").write_bytes(key_set())
    said = {
        "mechanisms": ["SCRAM-SHA-512", "OAUTHBEARER"],
        "users_file": "users.yaml",
        "phantom_secret_file": "phantoms",
        "oauth": OAUTH,
    }

    config = load(written(tmp_path, SMALLEST | {"authentication": said}))

    assert config.authentication.users["alice"].keys.keys() == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert config.authentication.phantom_secret == b"sixteen random ones"
    assert config.authentication.jwks == tmp_path / "keys.json"
    assert "random" not in repr(config)
    assert open_passwords(config) is None


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({}, "no client can log in"),
        ({"mechanisms": ["SCRAM-SHA-256"], "users_file": "u"}, "SCRAM needs phantom_secret_file"),
        ({"mechanisms": ["OAUTHBEARER"], "anonymous": True}, "OAUTHBEARER among mechanisms needs the section oauth"),
        ({"oauth": OAUTH}, "OAUTHBEARER among mechanisms needs the section oauth"),
        ({"mechanisms": ["GSSAPI"], "anonymous": True}, "authentication.mechanisms.0"),
        ({"mechanisms": [], "anonymous": True}, "authentication.mechanisms"),
        ({"mechanisms": ["OAUTHBEARER"], "oauth": OAUTH | {"algorithms": ["HS256"]}}, "oauth.algorithms.0"),
        ({"mechanisms": ["OAUTHBEARER"], "oauth": OAUTH}, "authentication.oauth.jwks"),
        ({"mechanisms": ["OAUTHBEARER"], "oauth": OAUTH | {"jwks": "http://i/keys"}}, "SWITCHYARD_ALLOWED_URLS"),
        ({"anonymous": True, "phantom_secret_file": "short"}, "shorter than 16 characters"),
        ({"anonymous": True, "scram_iterations": 1}, "scram_iterations"),
    ],
)
def test_contradictory_settings_are_refused(tmp_path: Path, said: dict[str, Any], text: str) -> None:
    (tmp_path / "short").write_text("abc")
    assert text in fault(tmp_path, SMALLEST | {"authentication": said})


@pytest.mark.parametrize(
    ("host", "flag", "mechanisms", "tls", "refused"),
    [
        ("0.0.0.0", True, ["PLAIN"], False, "Only on 127.0.0.1 a flag allows it"),
        ("gw.example.org", True, ["PLAIN"], False, "Only on 127.0.0.1 a flag allows it"),
        ("127.0.0.1", False, ["PLAIN"], False, "plain_without_tls: true"),
        ("127.0.0.1", True, ["PLAIN"], False, None),
        ("::1", True, ["PLAIN"], False, None),
        ("0.0.0.0", False, ["SCRAM-SHA-512"], False, None),
        ("0.0.0.0", False, ["PLAIN"], True, None),
    ],
)
def test_the_check_refuses_passwords_over_an_unencrypted_listener(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    flag: bool,
    mechanisms: list[str],
    tls: bool,
    refused: str | None,
) -> None:
    (tmp_path / "users.yaml").write_text("alice: wonder\n")
    (tmp_path / "phantoms").write_text("sixteen random ones\n")
    said = {
        "mechanisms": mechanisms,
        "users_file": "users.yaml",
        "phantom_secret_file": "phantoms",
        "plain_without_tls": flag,
    }
    changed: dict[str, Any] = {"listen": {"host": host}, "authentication": said}
    if tls:
        Authority(tmp_path).issue("gateway", ["127.0.0.1"])
        changed["tls"] = {"certificate_file": "gateway.pem", "key_file": "gateway.key"}
    file = written(tmp_path, SMALLEST | changed)
    monkeypatch.setattr("sys.argv", ["gateway", "--config", str(file), "--check"])

    assert main() == (0 if refused is None else 2)
    assert (refused or "good; gateway gw-1") in "".join(capsys.readouterr())


def test_each_worker_has_a_name_ports_and_a_share_of_its_own(tmp_path: Path) -> None:
    # Given
    limits = {"max_connections": 1001, "max_connections_per_user": 10, "max_held_bytes": 1 << 27}
    authentication = {"anonymous": True, "failures_per_address": 5}
    document = SMALLEST | {"workers": 2, "limits": limits, "authentication": authentication}
    config = load(written(tmp_path, document))
    # When
    first, second = config.as_worker(0), config.as_worker(1)
    # Then
    assert (config.id, config.gateway, config.worker_of) == ("gw-1", "gw-1", "")
    assert [(one.id, one.gateway, one.worker_of) for one in (first, second)] == [
        ("gw-1.0", "gw-1", "gw-1"),
        ("gw-1.1", "gw-1", "gw-1"),
    ]
    assert [(one.nodes.first_port, one.nodes.count) for one in (first, second)] == [(20_000, 1000), (21_000, 1000)]
    assert second.limits.max_connections == 501
    assert second.limits.max_connections_per_user == 10, "all connections of one client come to one worker"
    assert second.limits.max_held_bytes == config.limits.max_request_bytes, "a request fits anywhere"
    assert second.authentication.failures_per_address == 3
    assert second.listen == config.listen
    assert second.profiles == config.profiles


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"workers": 0}, "workers: 0: Input should be greater than or equal to 1"),
        ({"workers": 47}, "workers=47 with nodes.count=1000 ports each from nodes.first_port=20000 on pass port 65535"),
        ({"workers": 2, "listen": {"port": 21_999}}, "listen.port=21999 lies among the ports of virtual nodes"),
    ],
)
def test_workers_need_ports_for_all_their_nodes(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    assert said in fault(tmp_path, SMALLEST | more)


def test_networks_determine_the_zones_of_clients(tmp_path: Path) -> None:
    said = {"client_zones": {"networks": {"z-1": ["10.1.0.0/16"], "z-2": ["10.2.0.0/16"]}, "others": "asked"}}
    zones = load(written(tmp_path, SMALLEST | {"zone": "z-9"} | said)).zones_of_clients
    assert [zones.zone_of(host) for host in ("10.1.0.1", "10.2.0.1", "10.3.0.1")] == ["z-1", "z-2", "z-9"]
    # And by default nothing is said of any
    assert load(written(tmp_path, SMALLEST | {"zone": "z-9"})).zones_of_clients.zone_of("10.1.0.1") == ""
    doubled = {"client_zones": {"networks": {"z-1": ["10.1.0.0/16"], "z-2": ["10.1.0.0/16"]}}}
    assert "10.1.0.0/16 is in z-1 and in z-2" in fault(tmp_path, SMALLEST | doubled)
    assert "client_zones.networks.z-1" in fault(tmp_path, SMALLEST | {"client_zones": {"networks": {"z-1": ["ten"]}}})
