"""Shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

from tests import again
from tests.budget import Budget

# The time of an example depends on the machine, not on the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", action="store_true", help="only the few tests that failed in the last run, alone")
    parser.addoption(
        "--start-no-file-after",
        type=int,
        metavar="UNIX_S",
        help="run files that guard recent changes first, start no file after this time, and name those not run",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for plugin in again.configure(config):
        config.pluginmanager.register(plugin)
    if (deadline_unix_s := config.getoption("--start-no-file-after")) is not None:
        config.pluginmanager.register(Budget(deadline_unix_s, config.rootpath))
