"""No order of stops, deaths and resumes costs an acknowledged record, or stops clients for long."""

import os
import random

import pytest

from stack.harness import Stack
from tests.kit.stacks import own_stack
from tests.system.conftest import MakeRun
from tests.system.nemesis.play import Play
from tests.system.nemesis.schedule import drawn

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway", "ha_core/operations", "ha_core/plan")]
ROUNDS = int(os.environ.get("ANY_ORDER_ROUNDS", "12"))
SHORT = (3, 111, 1080, 1122)
"""An executor that stops under its fence, one that is killed there, a gateway that sleeps past its session, and a
cluster that dies between the halves of requests."""
SEED = os.environ.get("NEMESIS_SEED")
"""Seed of one round, to repeat it."""

stack = own_stack()


def play(stack: Stack, make_run: MakeRun, seed: int) -> None:
    one = Play(stack, make_run(stack), f"any-order-{seed}", drawn(seed))
    print(one.round)
    try:
        one.begin()
        one.move()
        one.goes_on()
        state = one.ends()
        print(f"{state}; {one.judged()}")
    except BaseException:
        print("\n".join(one.words))
        raise


@pytest.mark.parametrize("seed", [int(SEED)] if SEED else SHORT)
def test_a_move_in_an_order_of_events_that_once_cost_records_costs_nothing(
    stack: Stack, make_run: MakeRun, seed: int
) -> None:
    play(stack, make_run, seed)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(ROUNDS))
def test_many_moves_in_any_order_of_events_cost_nothing(stack: Stack, make_run: MakeRun, number: int) -> None:
    play(stack, make_run, random.SystemRandom().randrange(1 << 32))
