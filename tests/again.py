"""A second try, alone, for the few tests that failed in a whole run on a busy machine: `pytest --again`.

Real brokers on a shared machine miss a deadline now and then; Kafka's own build retries such tests, too. The summary
names tests that needed a second try, so that they are not taken for sound. A test with an unsound history gets none:
a record that was lost once is lost. Nor do more than `MAX_AGAIN` tests: so many failures have a cause.
"""

import re
from collections.abc import Iterator

import pytest

MAX_AGAIN = 3
UNSOUND = "switchyard/unsound"
"""Key in the cache for tests that get no second try, by node id."""
LAST_FAILED = "cache/lastfailed"
VERDICT = re.compile(r"\d+ acknowledged, \d+ delivered, \d+ lost, \d+ doubled")


class Unsound:
    """Notes, run by run, the tests that failed with the verdict of a checker of histories."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache = getattr(config, "cache", None)  # -p no:cacheprovider
        self._found: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and VERDICT.search(report.longreprtext):
            self._found.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._cache is not None and not hasattr(session.config, "workerinput"):
            self._cache.set(UNSOUND, sorted(self._found))


def failed_last(config: pytest.Config) -> list[str]:
    """Node ids to try again. Raises UsageError with the reason if they may not be."""
    assert config.cache is not None
    failed = list(config.cache.get(LAST_FAILED, {}))
    unsound = config.cache.get(UNSOUND, [])
    if unsound:
        raise pytest.UsageError(f"no second try where records were lost or doubled: {', '.join(unsound)}")
    if not 0 < len(failed) <= MAX_AGAIN:
        raise pytest.UsageError(f"a second try is for one to {MAX_AGAIN} tests, and {len(failed)} failed")
    return failed


class Again:
    """The session of the second try."""

    def __init__(self, failed: list[str]) -> None:
        self._failed = failed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("needed a second try")
        for nodeid in self._failed:
            terminalreporter.line(nodeid)


def configure(config: pytest.Config) -> Iterator[object]:
    """The plugins of this run."""
    yield Unsound(config)
    if config.getoption("--again"):
        failed = failed_last(config)
        config.args[:] = failed
        yield Again(failed)
