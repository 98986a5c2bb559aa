"""Pages of Airflow's UI while ZooKeeper is away, with many viewers."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from ha_core.operators import pages
from ha_core.operators.pages import MirrorsPage, PageError


def test_an_unreadable_page_shows_the_reason_after_one_read_for_all_viewers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a connection to a ZooKeeper that does not answer
    there = {"conn_type": "switchyard_zookeeper", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER", json.dumps(there))
    looks, look = list[int](), pages._look

    def counted() -> str:
        looks.append(1)
        return look()

    monkeypatch.setattr(pages, "_look", counted)
    page = MirrorsPage()

    def asked(_: int) -> str:
        with pytest.raises(PageError) as refused:
            page.html()
        return str(refused.value)

    # When several ask for the page
    with ThreadPoolExecutor(5) as people:
        told = list(people.map(asked, range(5)))
    # Then each gets the reason, and one of them has waited for ZooKeeper
    assert {one.partition(":")[0] for one in told} == {"The mirrors cannot be shown"}
    assert "no ZooKeeper answers at 127.0.0.1:1" in told[0]
    assert len(looks) == 1
