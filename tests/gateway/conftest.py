"""A test that is a coroutine runs in an event loop of its own."""

import asyncio
import inspect

import pytest

LONGEST_S = 120.0
"""A scenario that hangs ends before the test's own time is over, and shows where it waits."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    fixtures = inspect.signature(pyfuncitem.obj).parameters
    scenario = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in fixtures})
    asyncio.run(asyncio.wait_for(scenario, LONGEST_S))
    return True
