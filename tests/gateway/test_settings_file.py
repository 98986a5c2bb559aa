"""Discovery settings of a file or of the configuration; and a file that changes while a gateway runs."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import ConfigError, load, read_settings
from gateway.config.section import FaultyDocumentError
from gateway.config.settings_file import TYPES, parse, readable
from gateway.follow.followed_file import FollowedFile
from gateway.session.discovery_rates import DiscoverySettings
from ha_core.platform.kinds.settings import TYPES as OF_THE_PLATFORM

CONFIG: dict[str, Any] = {
    "id": "gw-1",
    "zookeeper": {"hosts": "127.0.0.1:2181"},
    "authentication": {"anonymous": True},
}
GOOD = {"user_rate": {"*": 20, "alice": 200}, "address_rate": {"10.0.0.7": 1000}, "queued_requests": {"east": 50}}


def written(folder: Path, document: Any) -> Path:
    file = folder / "discovery.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_file_has_the_platforms_types_within_its_bounds() -> None:
    assert {name: kind.maximum for name, kind in TYPES.items()} == {
        n: kind.maximum for n, kind in OF_THE_PLATFORM.items()
    }
    settings = parse(GOOD)
    assert settings.user_rate == {"*": 20, "alice": 200}
    assert settings.max_queued("east", 500) == 50
    assert settings.max_queued("west", 500) == 500


def test_addresses_are_normalised() -> None:
    assert parse({"address_rate": {"::FFFF:10.0.0.7": 3}}).address_rate.keys() <= {"10.0.0.7", "::ffff:10.0.0.7"}


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"app_rate": {"*": 1}}, "'app_rate': no such type of settings"),
        ({"user_rate": 20}, "user_rate: 20: write `NAME: number` lines"),
        ({"user_rate": {"alice": 0}}, "user_rate: 'alice': 0: give a whole number from 1"),
        ({"user_rate": {"alice": -3}}, "give a whole number from 1"),
        ({"user_rate": {"alice": True}}, "give a whole number from 1"),
        ({"user_rate": {"alice": "many"}}, "give a whole number from 1"),
        ({"user_rate": {"alice": 10**9}}, "from 1 to 10000000"),
        ({"user_rate": {"a\u0000b": 1}}, "is no name"),
        ({"user_rate": {"": 1}}, "is no name"),
        ({"user_rate": {"x" * 300: 1}}, "is no name"),
        ({"address_rate": {"example.org": 1}}, "address_rate: 'example.org'"),
        ({"queued_requests": {"east": 10**7}}, "from 1 to 1000000"),
    ],
)
def test_an_error_is_named_with_its_place(said: dict[str, Any], fault: str) -> None:
    with pytest.raises(FaultyDocumentError) as caught:
        parse(said)
    assert fault in str(caught.value)
    assert len(str(caught.value)) < 400


def test_at_most_twenty_errors_of_settings_are_named() -> None:
    with pytest.raises(FaultyDocumentError) as caught:
        parse({"user_rate": dict.fromkeys(map(str, range(1000)), 0)})
    assert len(caught.value.faults) == 21
    assert caught.value.faults[-1] == "… and 980 more"


def test_types_of_a_newer_platform_are_left_out() -> None:
    assert readable({"user_rate": {"*": 3}, "colour": {"*": 1}}) == DiscoverySettings(user_rate={"*": 3})


def test_the_configuration_has_settings_or_names_their_file_and_not_both(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    written(tmp_path, GOOD)
    file.write_text(yaml.safe_dump(CONFIG | {"discovery": {"settings_file": "discovery.yaml"}}))
    assert load(file).discovery.read == parse(GOOD)
    file.write_text(yaml.safe_dump(CONFIG | {"discovery": {"settings": GOOD}}))
    assert load(file).discovery.read == parse(GOOD)
    file.write_text(yaml.safe_dump(CONFIG | {"discovery": {"settings": GOOD, "settings_file": "discovery.yaml"}}))
    with pytest.raises(ConfigError, match="leave one out"):
        load(file)


@pytest.mark.parametrize(
    "section", [{"settings": {"user_rate": {"alice": 0}}}, {"settings_file": "none.yaml"}, {"rates": 3}]
)
def test_an_error_in_settings_names_file_and_key(section: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"discovery": section}))
    with pytest.raises(ConfigError, match="discovery"):
        load(file)


class Following:
    """Looks at the file as often as a test says."""

    def __init__(self, file: Path) -> None:
        self.told: list[DiscoverySettings] = []
        self.settings = FollowedFile("settings", file, read_settings(file), read_settings, self.told.append)

    def look(self, times: int = 2) -> None:
        async def looks() -> None:
            for _ in range(times):
                await self.settings.look()

        asyncio.run(looks())


def test_a_new_version_is_passed_on_once_when_the_file_is_stable(tmp_path: Path) -> None:
    following = Following(written(tmp_path, GOOD))
    following.look(5)
    assert following.told == []
    written(tmp_path, {"user_rate": {"*": 1}})
    following.look(1)
    assert following.told == []
    following.look(5)
    assert following.told == [DiscoverySettings(user_rate={"*": 1})]


def test_an_unreadable_version_changes_nothing_and_is_logged(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    following = Following(file)
    written(tmp_path, {"user_rate": {"alice": 0}})
    following.look()
    assert following.told == []
    assert "'alice': 0" in following.settings.unreadable
    os.remove(file)
    following.look()
    assert "No such file" in following.settings.unreadable
    file.write_bytes(b"\xff\xfe: [")
    following.look()
    assert following.settings.unreadable
    written(tmp_path, {})
    following.look()
    assert following.told == [DiscoverySettings()]
    assert following.settings.unreadable == ""
