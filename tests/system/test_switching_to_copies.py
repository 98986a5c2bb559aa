"""A mirrored topic is switched to its copy and back under load, by the job's copiers and the switch's own."""

import pytest

from ha_core.store.store import Store
from tests.kit.running import Run
from tests.kit.stacks import own_stack
from tests.system.conftest import mirrored_run
from tests.system.mirrored_rounds import Rounds

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/move", "ha_core/plan/mirror/standby.py", "spark_jobs/mirror"),
]


stack = own_stack(mirror=True)


run = pytest.fixture(mirrored_run)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_rounds_to_the_copy_and_back_lose_and_double_nothing(run: Run, store: Store, name: str, times: int) -> None:
    # Given clients at work on a mirrored topic
    rounds = Rounds(run.stack, store, run, name)
    rounds.begin()
    # When the topic is switched to its copy and back, repeatedly
    for _ in range(2 * times):
        rounds.planned()
    # Then every acknowledged record was delivered once, no client has failed, and the copy equals the writer's log
    rounds.judged()
    rounds.verified()
