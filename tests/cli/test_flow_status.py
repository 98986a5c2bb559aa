"""`flows status`, by what workers report, on a store in memory."""

import json
from contextlib import closing
from typing import Any

import pytest

from ha_core.flows.groups import SkippedGroup
from ha_core.flows.remote_plan import SkippedTopic
from ha_core.mirror_maker.states import FlowState
from ha_core.model import FlowWorker
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, seeded, shown, use

NUMBERS: dict[str, Any] = {"topics": 0, "lag_records": None, "lag_ms": None, "overtaken": None, "bytes_s": 0.0}
STATE = FlowState(
    flow="A->B",
    trouble="",
    partitions={},
    copied_records=0,
    copied_bytes=0,
    worst=(),
    skipped_topics=(SkippedTopic("orders", "A.orders does not exist yet in B"),),
    skipped_topics_in_all=1,
    skipped_groups=(SkippedGroup("billing", "groups does not name it"),),
    skipped_groups_in_all=1,
    not_committed=(SkippedGroup("billing", "it is Stable in the target", ("A.orders", 3)),),
    offsets={},
    duties={},
    **NUMBERS,
)


def test_topics_and_groups_that_are_left_out_are_shown_with_their_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    store = seeded()
    use(store, monkeypatch)
    assert isinstance(store, MemoryStore)
    states = json.loads(json.dumps({"A->B": STATE.to_json()}))
    worker = FlowWorker(
        id="w", host="copier-1", pid=7, since="2026-01-01T00:00:00Z", flows=("A->B@1>2",), states=states
    )
    with closing(store.client().register(worker)):
        assert "orders: A.orders does not exist yet in B" in " ".join(shown("flows", "status").split())
        (found,) = document("flows", "status")
    assert found["skipped_groups"] == [{"group": "billing", "reason": "groups does not name it", "partition": None}]
    assert found["not_committed"][0]["partition"] == ["A.orders", 3]
