"""The second try of a whole run: for few tests, and never if records were lost."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

FLAKY = """
import pathlib
def test_flaky():
    seen = pathlib.Path("seen")
    first = not seen.exists()
    seen.write_text("")
    assert not first{said}
def test_sound(): pass
"""
CONFTEST = "from tests.conftest import *"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    return pytester


def test_a_failed_test_is_run_again_alone_and_named(project: pytest.Pytester) -> None:
    # Given a run in which one test failed
    project.makepyfile(FLAKY.format(said=""))
    project.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    # When the run is retried
    second = project.runpytest_subprocess("--again")
    # Then only that test runs, and its name is shown
    second.assert_outcomes(passed=1)
    second.stdout.fnmatch_lines(["*needed a second try*", "*::test_flaky"])


def test_a_test_that_fails_again_fails(project: pytest.Pytester) -> None:
    project.makepyfile("def test_broken(): assert False")
    project.runpytest_subprocess()

    project.runpytest_subprocess("--again").assert_outcomes(failed=1)


def test_a_lost_record_gets_no_second_try(project: pytest.Pytester) -> None:
    # Given a test with an unsound history
    project.makepyfile(FLAKY.format(said=', "10 acknowledged, 9 delivered, 1 lost, 0 doubled, 0 repeated"'))
    project.runpytest_subprocess()
    # When the run is retried
    second = project.runpytest_subprocess("--again")
    # Then it is not run
    assert second.ret == pytest.ExitCode.USAGE_ERROR
    second.stderr.fnmatch_lines(["*no second try where records were lost or doubled*test_flaky*"])


def test_many_failures_get_no_second_try(project: pytest.Pytester) -> None:
    project.makepyfile("\n".join(f"def test_{n}(): assert False" for n in range(4)))
    project.runpytest_subprocess()

    assert project.runpytest_subprocess("--again").ret == pytest.ExitCode.USAGE_ERROR
