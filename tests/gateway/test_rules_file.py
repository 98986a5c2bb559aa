"""Access rules in a file: errors are named, and none of a faulty file is used."""

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from gateway.config import ConfigError, load, read_rules
from gateway.follow.followed_file import FollowedFile
from ha_core.model.access import AclOperation, ResourceType
from ha_core.plan.access.rights import Rights

READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
RULE = {"principal": "User:alice", "resource_type": "topic", "name": "orders", "operation": "read", "effect": "allow"}
CONFIG = {"id": "gw-1", "zookeeper": {"hosts": "zk:2181"}, "authentication": {"anonymous": True}}


def written(folder: Path, document: object) -> Path:
    file = folder / "rules.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return file


def test_users_and_rules_are_read_from_a_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"users": {"ops": {"super_user": True}, "bob": {"groups": ["tills"]}, "eve": None}, "rules": [RULE]},
    )

    rights = read_rules(file).rights

    assert rights.of("alice", "10.0.0.1").allows(READ, TOPIC, "orders")
    assert rights.of("ops", "10.0.0.1").everything
    assert not rights.of("eve", "10.0.0.1").allows(READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"rules": [{**RULE, "principal": ""}]}, "rules: 1: principal '': invalid"),
        ({"rules": [RULE, {**RULE}]}, "rules: 2: the same as rule 1"),
        ({"rules": ["alice may read"]}, "rules: 1: 'alice may read'"),
        ({"rules": {"alice": "read"}}, "rules: write a list"),
        ({"users": ["alice"]}, "users: write `NAME:"),
        ({"users": {"alice": {"super": True}}}, "users: alice: known keys are groups, super_user"),
        ({"users": {"alice": {"super_user": "yes, please"}}}, "super_user: 'yes, please': write true or false"),
        ({"users": {"alice": {"groups": "tills"}}}, "groups: 'tills': write a list"),
        ({"users": {"*": {"super_user": True}}}, "users: *: not a user; name one"),
        ({"users": {"a\x07": {}}}, "principal 'User:a\\x07': invalid"),
        ({"roles": {}}, "roles: no such key here"),
        ("rules: [", "correct the YAML"),
        ("- rules", "write `key: value` lines"),
    ],
)
def test_a_file_with_an_error_is_refused_with_its_place(tmp_path: Path, document: object, words: str) -> None:
    file = written(tmp_path, document)

    with pytest.raises(ConfigError) as refused:
        read_rules(file)

    assert str(file) in str(refused.value)
    assert words in str(refused.value)


def test_at_most_twenty_errors_of_a_file_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, {"rules": [{**RULE, "operation": "steal"}] * 1000})

    with pytest.raises(ConfigError, match="and 980 more") as refused:
        read_rules(file)

    assert len(str(refused.value).splitlines()) == 21


@pytest.mark.parametrize("said", [False, "off", {}])
def test_authorisation_is_off_by_default(tmp_path: Path, said: object) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"authorisation": said}))

    config = load(file)

    assert (config.authorisation.rules, config.rules_file) == (None, None)


def test_the_rules_are_checked_with_the_configuration_that_names_them(tmp_path: Path) -> None:
    # Given
    written(tmp_path, {"rules": [{**RULE, "host": "example.org"}]})
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"authorisation": {"rules_file": "rules.yaml"}}))
    # Then
    with pytest.raises(ConfigError, match=r"host 'example\.org': not an address"):
        load(file)


class Following:
    """Looks at the file as often as a test says."""

    def __init__(self, file: Path) -> None:
        self.told: list[Rights] = []
        self.rules = FollowedFile(
            "rules", file, read_rules(file), read_rules, lambda rules: self.told.append(rules.rights)
        )

    def look(self, times: int = 2) -> None:
        async def looks() -> None:
            for _ in range(times):
                await self.rules.look()

        asyncio.run(looks())

    def reads(self) -> bool:
        return self.rules.content.rights.of("alice", "10.0.0.1").allows(READ, TOPIC, "orders")


def test_a_new_version_is_in_force_once_the_file_is_stable(tmp_path: Path) -> None:
    # Given
    file = written(tmp_path, {"rules": [RULE]})
    following = Following(file)
    following.look()
    # When it is rewritten
    written(tmp_path, {"rules": []})
    following.look(1)
    # Then the first look only sees that it is another one
    assert following.reads()
    assert following.told == []
    following.look(1)
    assert not following.reads()
    assert following.told == [following.rules.content.rights]


def test_an_unreadable_version_leaves_the_last_one_in_force_and_is_logged(tmp_path: Path) -> None:
    # Given
    file = written(tmp_path, {"rules": [RULE]})
    following = Following(file)
    # When
    written(tmp_path, {"rules": [{**RULE, "effect": "perhaps"}]})
    following.look()
    # Then
    assert following.reads()
    assert "effect 'perhaps'" in following.rules.unreadable
    # And when the file is away, and then right again
    os.remove(file)
    following.look()
    assert following.reads()
    assert "No such file" in following.rules.unreadable
    written(tmp_path, {"rules": []})
    following.look()
    assert not following.reads()
    assert following.rules.unreadable == ""
