"""The job on a standalone master, executor and driver killed."""

import time
from collections.abc import Iterator

import pytest

from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.stacks import own_stack

from .live import Writer, assert_copied_once, goes_on, link

pytestmark = [pytest.mark.stack, pytest.mark.long("spark_jobs/mirror")]


stack = own_stack(gateways=0, security="sasl", spark=True, mirror=True)


@pytest.fixture(scope="module")
def store(stack: Stack) -> Iterator[Store]:
    store = connect(stack.zookeeper)
    yield store
    store.close()


def test_every_record_is_copied_once_while_executors_are_killed(stack: Stack, store: Store) -> None:
    link(stack, store, "bills")
    with Writer(stack, "bills") as writer:
        print(f"first: {goes_on(stack, store, 'bills'):.1f} s")
        stack.kill("mirror/executor")
        time.sleep(1)
        print(f"after a killed executor: {goes_on(stack, store, 'bills'):.1f} s")
    goes_on(stack, store, "bills")
    assert_copied_once(stack, "bills", writer)


@pytest.mark.soak
def test_every_record_is_copied_once_while_executor_and_driver_stand_still_and_are_killed(
    stack: Stack, store: Store
) -> None:
    link(stack, store, "orders")
    with Writer(stack, "orders") as writer:
        goes_on(stack, store, "orders")
        stack.pause("mirror/executor")
        time.sleep(10)
        stack.resume("mirror/executor")
        print(f"after an executor that stood still: {goes_on(stack, store, 'orders'):.1f} s")
        stack.kill("mirror")
        stack.restart("mirror")
        print(f"after a killed driver: {goes_on(stack, store, 'orders'):.1f} s")
    goes_on(stack, store, "orders")
    assert_copied_once(stack, "orders", writer)
