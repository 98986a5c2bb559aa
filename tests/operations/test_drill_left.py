"""A drill whose process dies is seen, at whichever moment it died."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ha_core.model import Drill
from ha_core.operations.drill.rehearsal import DrillOrder, Rehearsal
from ha_core.operations.engine.environment import Environment
from ha_core.operations.overview.drill_health import drill_problems
from ha_core.operations.running import engine
from ha_core.present.drills import drills_page
from stack.memory_store import MemoryStore

ORDER = DrillOrder("planned", ("user:canary",), "east", "west", "INC-7")


class KilledError(BaseException):
    """In place of SIGKILL."""


def a_drill(**more: Any) -> Drill:
    fields: dict[str, Any] = {
        "id": "drill-1",
        "kind": "planned",
        "scope": ORDER.scope,
        "origin": "east",
        "target": "west",
    }
    fields |= {"by": "cli:joe@ops1", "reason": "INC-7", "started": "2026-12-01T10:00:00Z"}
    return Drill.model_validate({**fields, **more})


def killed(_seconds: float) -> None:
    raise KilledError


def test_a_drill_that_is_killed_right_after_its_cut_has_stored_that_its_scope_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    environment = Environment(store=store, by="cli:joe@ops1", session_timeout_s=0.5, sleep=killed)
    report = SimpleNamespace(operation="switch-1", result="succeeded", words="succeeded")
    monkeypatch.setattr(engine, "start", lambda *_: SimpleNamespace(id="switch-1"))
    monkeypatch.setattr(engine, "resume", lambda *_: report)

    with pytest.raises(KilledError):
        Rehearsal(environment, ORDER, a_drill())._switch("there", cast(Any, None))

    (stored,) = store.drills()
    assert (stored.away, stored.result) == (True, "running")


@pytest.mark.parametrize(
    ("away", "words"), [(True, "user:canary is still in west"), (False, "user:canary may be in west")]
)
def test_a_drill_without_an_end_is_named_also_if_it_died_before_it_could_say_where_its_scope_is(
    away: bool, words: str
) -> None:
    store = MemoryStore()
    store.write_drill(a_drill(away=away))
    environment = Environment(store=store, by="cli:joe@ops1", session_timeout_s=0.5)

    (problem,) = drill_problems(environment)

    assert (problem.code, problem.patience_s) == ("drill-away", 1_800.0)
    assert words in problem.text
    assert problem.command == "switchyard drill home drill-1 --reason drill-away"
    listed = [str(block) for block in drills_page(store.drills(), (), {})]
    assert any("if its process has died, `switchyard drill home drill-1 --reason …`" in one for one in listed)
    # And a drill that has ended at home is no problem
    store.write_drill(a_drill(result="passed", ended="2026-12-01T10:01:00Z"))
    assert [*drill_problems(environment)] == []
