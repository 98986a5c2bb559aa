"""A mirrored topic goes to its copy and back under load, planned and forced, repeatedly: all acknowledged records are
delivered, except for the reported loss, record by record."""

import os
import random

import pytest

from ha_core.store.store import Store
from stack.harness import Stack
from tests.kit.running import Run
from tests.kit.stacks import own_stack
from tests.system.conftest import mirrored_run
from tests.system.mirrored_rounds import Rounds
from tests.system.nemesis.schedule import Does

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(2400)]
SEED = os.environ.get("NEMESIS_SEED")
SEEDS = [int(SEED)] if SEED else [1, 2]
ROUNDS = int(os.environ.get("NEMESIS_ROUNDS", "5"))
FAILS = (Does.KILL, Does.PAUSE)
"""Kinds of cluster failures, used in turn."""


stack = own_stack(mirror=True, record_facts_s=1)


run = pytest.fixture(mirrored_run)


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_of_planned_and_forced_switches_lose_what_they_report_and_nothing_else(
    run: Run, stack: Stack, store: Store, name: str, seed: int
) -> None:
    chance = random.Random(seed)
    rounds = Rounds(stack, store, run, name)
    rounds.begin()
    try:
        for number in range(ROUNDS):
            # When it is switched to its copy, and mostly back
            for _ in range(chance.choice((1, 2, 2))):
                rounds.planned()
            # And its cluster fails
            rounds.forced(FAILS[(number + seed) % len(FAILS)], lags=chance.random() < 0.6)
            # And it goes back to that cluster when that is the standby
            rounds.planned()
            rounds.verified()
        # Then all acknowledged records, less the reported losses, are delivered
        rounds.judged()
    finally:
        rounds.resume_all()
