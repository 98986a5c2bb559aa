"""`mirror verify` without clusters: invalid mirrors are reported before any cluster is asked."""

import pytest

from ha_core.cli.exits import BAD_INPUT, OUT_OF_REACH
from ha_core.model import Cluster, Document, Mirror
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.cli.invoking import run, use


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> None:
    """`orders` has two mirrors, `bills` one in a cluster that does not answer, `lost` one in an unknown cluster."""
    made = [("orders", "west"), ("orders", "north"), ("bills", "west"), ("lost", "south")]
    mirrors = [Mirror.of(topic, "east", target, "link", "2026-01-01T00:00:00Z", "test") for topic, target in made]
    clusters = [Cluster(name=name, bootstrap="127.0.0.1:1") for name in ("east", "west", "north")]
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None for mirror in mirrors}
    expected |= {(Cluster, cluster.name): None for cluster in clusters}
    store = MemoryStore()
    store.commit(StateChange(change_id="seed", puts=(*clusters, *mirrors), expected=expected))
    use(store, monkeypatch)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["orders"], "Topic orders has mirrors in north, west. Name one of them with --to."),
        (["nothing"], "Topic nothing has no mirror. `switchyard mirrors` lists them."),
        (["lost"], "Cluster south of the mirror lost@south is not registered. Add it."),
    ],
)
def test_a_topic_without_exactly_one_known_mirror_is_refused(words: list[str], why: str) -> None:
    assert run("mirror", "verify", *words) == (BAD_INPUT, {"error": why, "result": "refused"})


def test_a_cluster_that_does_not_answer_is_out_of_reach() -> None:
    code, document = run("mirror", "verify", "bills")
    assert code == OUT_OF_REACH
    assert "127.0.0.1:1" in document["error"]
