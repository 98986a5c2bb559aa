"""Moved topics are told to Airflow and to OpenLineage, and neither can fail a move that has ended."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.execution_time.context import OutletEventAccessors  # noqa: E402

from ha_core.model import Cluster, View  # noqa: E402
from ha_core.operators.moved_topics import MAX_EVENTS, MOVED, MovesTopics  # noqa: E402
from tests.kit.operations import a_switch  # noqa: E402


class Task(MovesTopics):
    def __init__(self, clusters: tuple[Cluster, ...] = ()) -> None:
        self.context: Any = {"outlet_events": OutletEventAccessors()}
        view = View(revision=1, clusters={one.name: one for one in clusters})
        self.environment: Any = SimpleNamespace(store=SimpleNamespace(load=lambda: view))

    @property
    def events(self) -> list[tuple[str, Any]]:
        return [(one.dest_asset_key.uri, one.extra) for one in self.context["outlet_events"][MOVED].asset_alias_events]


def test_each_topic_that_moved_is_an_event_of_an_asset_named_by_its_new_cluster() -> None:
    task = Task()

    task.note_moved([a_switch("orders", "bills", state="succeeded"), a_switch("audit", id="switch-2", state="undone")])

    said = {"operation": "switch-1", "from": "east", "to": "west"}
    assert task.events == [("kafka://west/orders", said), ("kafka://west/bills", said)]


def test_events_of_one_task_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    task = Task()

    task.note_moved([a_switch(*(f"t{n}" for n in range(MAX_EVENTS + 1)), state="succeeded")])

    assert len(task.events) == MAX_EVENTS
    assert "1 of 1001 moved topics have no asset event" in caplog.text


def test_a_move_that_has_ended_does_not_fail_because_its_events_cannot_be_emitted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Task()
    task.context = {"outlet_events": {}}

    task.note_moved([a_switch("orders", state="succeeded")])

    assert "no asset events" in caplog.text


def planted(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_openlineage_gets_the_topic_in_its_old_and_its_new_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix of versions runs it with the real provider."""
    symlinks = SimpleNamespace(Identifier=SimpleNamespace, SymlinksDatasetFacet=SimpleNamespace)
    for package in ("airflow.providers.openlineage", "openlineage", "openlineage.client"):
        planted(monkeypatch, package)
    planted(monkeypatch, "airflow.providers.openlineage.extractors", OperatorLineage=SimpleNamespace)
    planted(monkeypatch, "openlineage.client.event_v2", Dataset=SimpleNamespace)
    planted(monkeypatch, "openlineage.client.facet_v2", symlinks_dataset=symlinks)
    task = Task((Cluster(name="east", bootstrap="east-1:9092,east-2:9092"),))
    task.note_moved([a_switch("orders", state="succeeded")])

    lineage = task.get_openlineage_facets_on_complete(None)

    (before,), (after,) = lineage.inputs, lineage.outputs
    assert [(one.namespace, one.name) for one in (before, after)] == [
        ("kafka://east", "orders"),
        ("kafka://west", "orders"),
    ]
    (address,) = before.facets["symlinks"].identifiers
    assert (address.namespace, address.name) == ("kafka://east-1:9092", "orders")
    assert after.facets == {}
