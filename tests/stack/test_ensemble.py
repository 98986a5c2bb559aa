"""Members of ZooKeeper in a stack: names by which faults choose them, and a configuration that joins them."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ha_core.store.security import OPEN
from stack.java import Java
from stack.parts import matches
from stack.zookeeper_part import Ensemble


@pytest.fixture
def made(tmp_path: Path) -> Callable[[int], Ensemble]:
    """An ensemble of so many members, with its files."""

    def make(members: int) -> Ensemble:
        ports = count(2181)
        ensemble = Ensemble.of(members, tmp_path.joinpath, lambda: next(ports), Java(Path("/java"), ""), None, OPEN)
        for member in ensemble.members:
            member.prepare()
        return ensemble

    return make


def test_one_member_is_alone_and_has_the_name_of_all(made: Callable[[int], Ensemble]) -> None:
    (alone,) = made(1).members

    assert alone.name == "zookeeper"
    assert "ZooKeeperServerMain" in " ".join(alone.command().argv)
    assert "server.1" not in (alone.home / "zoo.cfg").read_text()


def test_members_are_chosen_singly_or_all_at_once_and_know_each_other(made: Callable[[int], Ensemble]) -> None:
    ensemble = made(3)

    assert [member.name for member in ensemble.members] == ["zookeeper/1", "zookeeper/2", "zookeeper/3"]
    assert all(matches(member.name, "zookeeper") for member in ensemble.members)
    assert len({*ensemble.address.split(",")}) == 3
    known = {
        tuple(line for line in (member.home / "zoo.cfg").read_text().splitlines() if line.startswith("server."))
        for member in ensemble.members
    }
    (servers,) = known
    assert len({*servers}) == 3
    assert [(member.home / "data" / "myid").read_text() for member in ensemble.members] == ["1", "2", "3"]
    assert all("QuorumPeerMain" in " ".join(member.command().argv) for member in ensemble.members)
