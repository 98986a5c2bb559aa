"""The latency over all hops, by heartbeats. Without a cluster."""

from typing import Self, cast

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.errors import MirrorClientError
from ha_core.flows.properties import parse
from ha_core.flows.records import Heartbeat
from ha_core.mirror_client import MirrorClient
from ha_core.mirror_maker.end_to_end import LATE_MS, EndToEnd

TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
PATH = ("Z", "A", "B")


class Target:
    """Stands for the target and its heartbeats."""

    def __init__(self) -> None:
        self.newest_ms, self.away = 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def heartbeat_topics(self) -> set[str]:
        if self.away:
            raise MirrorClientError("the topics cannot be listed")
        return {"heartbeats", "A.Z.heartbeats", "C.heartbeats"}

    def last_heartbeats(self, topic: str) -> list[Heartbeat]:
        return [Heartbeat("Y", "Z", self.newest_ms - 1000), Heartbeat("X", "Z", self.newest_ms)]


def test_the_age_of_a_path_grows_while_its_target_is_away() -> None:
    """It kept the value of the last look: a flow whose target was dead for an hour showed 25 ms."""
    target, now_ms = Target(), 1_000_000
    (flow,) = configuration(parse(TEXT, "mm2"), "mm2", {}).flows
    latency = EndToEnd(flow, lambda: cast(MirrorClient, target), lambda: now_ms)
    assert latency.age_ms() == {}
    target.newest_ms = now_ms - 25
    latency.look()
    assert latency.age_ms() == {PATH: 25}
    now_ms += LATE_MS - 1
    assert latency.age_ms() == {PATH: 25}  # that the next look has not come yet is no latency
    target.away = True
    now_ms += 1
    with pytest.raises(MirrorClientError):
        latency.look()
    assert latency.age_ms() == {PATH: LATE_MS + 25}
    now_ms += 60_000
    assert latency.age_ms() == {PATH: LATE_MS + 60_025}
    target.away, target.newest_ms = False, now_ms - 40
    latency.look()
    assert latency.age_ms() == {PATH: 40}
