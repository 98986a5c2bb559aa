"""The platform's section of the configuration, and its errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import ConfigError, load, open_passwords

TOKEN = "t" * 43
SECTION = {"url": "http://127.0.0.1:8085", "token_file": "token"}
CONFIG: dict[str, Any] = {"id": "gw-1", "zookeeper": {"hosts": "z:1"}, "authentication": {}}


def written(folder: Path, section: dict[str, Any], **more: Any) -> Path:
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "short").write_text("short\n")
    (folder / "users.yaml").write_text("alice: wonder\n")
    (folder / "rules.yaml").write_text("rules: []\n")
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"platform": SECTION | section} | more))
    return file


def test_everything_is_followed_by_default_and_the_token_is_read_from_the_file(tmp_path: Path) -> None:
    platform = load(written(tmp_path, {})).platform

    assert platform is not None
    assert platform.caches == ("users", "rules", "settings")
    assert platform.token() == TOKEN
    (tmp_path / "token").write_text("u" * 40)
    assert platform.token() == "u" * 40


@pytest.mark.parametrize(
    ("follows", "caches"),
    [(["rules"], ("users", "rules")), (["users"], ("users",)), (["settings", "rules"], ("users", "settings", "rules"))],
)
def test_with_rules_users_are_followed_for_their_groups(
    tmp_path: Path, follows: list[str], caches: tuple[str, ...]
) -> None:
    more = {} if "users" in follows else {"authentication": {"users_file": "users.yaml"}}

    platform = load(written(tmp_path, {"follows": follows}, **more)).platform

    assert platform is not None
    assert platform.caches == caches


def test_files_and_platform_can_be_combined_if_each_kind_has_one_source(tmp_path: Path) -> None:
    rules = {"authorisation": {"rules_file": "rules.yaml"}}

    config = load(written(tmp_path, {"follows": ["users"]}, **rules))

    assert config.follows("users")
    assert not config.follows("rules")


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"authentication": {"users_file": "users.yaml"}}, "authentication.users_file and platform.follows: both say"),
    ({}, {"authorisation": {"rules_file": "rules.yaml"}}, "authorisation (rules_file) and platform.follows: both say"),
    ({}, {"authorisation": "off"}, "authorisation (off) and platform.follows: both say who may do what"),
    ({"follows": ["rules"]}, {}, "authentication: no client can log in: give users_file or oauth, follow the users"),
    ({"follows": []}, {}, "platform.follows: []: Tuple should have at least 1 item"),
    (
        {"follows": ["quotes"]},
        {},
        "platform.follows.0: 'quotes': Input should be 'users', 'rules', 'sett",
    ),
    ({"url": "http://10.0.0.1:8085"}, {}, "would be readable on the line; write https://, or say plain: true"),
    ({"url": "ftp://example.org"}, {}, "platform.url: 'ftp://example.org' is no URL of a platform"),
    ({"url": "https://a:b@example.org"}, {}, "platform.url: a URL with an account"),
    ({"tls": {"ca_file": "ca.pem"}}, {}, "platform: tls is of no use with http://127.0.0.1:8085"),
    ({"url": "https://h", "tls": {"ca": "x"}}, {}, "platform: tls: ca: no such key"),
    ({"url": "https://h", "tls": {"ca_file": "none.pem"}}, {}, "none.pem: No such file or directory"),
    ({"token_file": "none"}, {}, "platform.token_file: none: No such file or directory; give the path"),
    ({"token_file": "short"}, {}, "platform.token_file: short: no token; write that of a gateway, 32 to 512"),
    ({"folder": "token"}, {}, "platform.folder: token is no folder"),
    ({"read_s": 0}, {}, "platform.read_s: 0: Input should be greater than 0"),
    ({"every": 1}, {}, "platform.every: 1: no such key here; known keys are url, token_file, tls"),
]


@pytest.mark.parametrize(("section", "more", "text"), FAULTS, ids=[text[:40] for _, _, text in FAULTS])
def test_a_fault_is_named_with_key_value_and_way_out(
    tmp_path: Path, section: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, section, **more))

    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert text in said
    assert "short\n" not in said
    assert TOKEN not in said


@pytest.mark.parametrize(("said", "iterations"), [({}, 8192), ({"scram_iterations": 4096}, 4096)])
def test_phantoms_have_as_many_iterations_as_the_platform_gives_its_users(
    tmp_path: Path, said: dict[str, int], iterations: int
) -> None:
    assert load(written(tmp_path, {}, authentication=said)).authentication.iterations == iterations


def test_passwords_of_platform_users_need_tls_too(tmp_path: Path) -> None:
    assert open_passwords(load(written(tmp_path, {}))) is not None
