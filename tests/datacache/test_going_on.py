"""A process that starts while the source is away serves the content of its predecessor."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ha_core.datacache.cache import DataCache
from ha_core.datacache.cache_file import CacheFile
from ha_core.datacache.core.packed import rows_of
from ha_core.datacache.core.source import Row
from ha_core.datacache.state import CacheSettings
from tests.kit.waiting import until
from tests.store.sessions import Backend
from tests.store.waiting import DEADLINE_S

from .sources import History, values

SETTINGS = CacheSettings(every_s=0.2, hold_s=1.0, check_s=3600.0)
Start = Callable[[History, str], DataCache]


@pytest.fixture
def start(backend: Backend, tmp_path: Path) -> Iterator[Start]:
    """`start(source, node)`: its file is that of the node before it."""
    begun: list[DataCache] = []

    def make(source: History, node: str) -> DataCache:
        file = CacheFile(tmp_path / node, "here")
        cache = DataCache("users", node, source, backend.open().store.tree, SETTINGS, file=file)
        cache.start()
        begun.append(cache)
        return cache

    yield make
    for cache in begun:
        cache.close()


def serves(cache: DataCache, source: History) -> bool:
    return cache.main is not None and values(cache.main.rows) == source.content(source.newest_us)


def kept(start: Start, source: History, node: str = "gw-1") -> None:
    """By a process that has ended."""
    cache = start(source, node)
    until(lambda: serves(cache, source), "served")
    cache.close()


def test_a_restarted_node_serves_its_commit_time_and_shows_its_age(start: Start) -> None:
    # Given
    source = History()
    source.change("a", "x")
    kept(start, source)
    source.down = "away"

    cache = start(source, "gw-1")

    assert cache.wait(DEADLINE_S)
    assert serves(cache, source)
    until(lambda: cache.state().error == "away", "said why")
    state = cache.state()
    assert state.commit_us == source.newest_us
    assert state.age_s is not None
    assert 0 <= state.age_s < DEADLINE_S


def test_an_empty_content_is_kept_too(start: Start) -> None:
    source = History()
    kept(start, source)
    source.down = "away"

    cache = start(source, "gw-1")

    assert cache.wait(DEADLINE_S)
    assert cache.state().commit_us == 0
    source.change("a", "x")
    source.down = ""
    until(lambda: serves(cache, source), "served")


def test_a_restarted_node_continues_when_the_source_is_back(start: Start) -> None:
    # Given
    source = History()
    for key in "abcd":
        source.change(key, "x")
    kept(start, source)
    source.down = "away"
    cache = start(source, "gw-1")
    assert cache.wait(DEADLINE_S)
    source.change("b", None)
    source.change("e", "y")

    source.down = ""

    until(lambda: serves(cache, source), "served")
    assert cache.state().reloads == 0


def test_a_change_in_the_file_is_repaired_by_the_first_read(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a file with another value under the right time
    source = History()
    source.change("a", "x")
    kept(start, source)
    file = CacheFile(tmp_path / "gw-1", "here")
    content = file.load()
    assert content is not None
    rows = rows_of(Row(key, row.changed_us, {"is": "planted"}) for key, row in content.content.rows.items())
    (tmp_path / "gw-1").unlink()
    CacheFile(tmp_path / "gw-1", "here").keep(
        type(content.content)(content.content.at_us, rows, content.content.fingerprint), 0
    )

    cache = start(source, "gw-1")

    until(lambda: serves(cache, source), "healed")


def test_a_node_that_starts_with_an_older_state_joins_the_others(start: Start) -> None:
    # Given a node that was away while the other one went on
    source = History()
    source.change("a", "x")
    kept(start, source)
    other = start(source, "gw-2")
    source.change("a", "y")
    until(lambda: serves(other, source), "served by the other")

    cache = start(source, "gw-1")

    until(lambda: serves(cache, source), "served")
    source.change("b", "z")
    for each in (cache, other):
        until(partial(serves, each, source), "served by both")
    assert cache.state().commit_us == other.state().commit_us
