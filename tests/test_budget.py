"""A run with a deadline: its order, its end, and its summary."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.budget import guards, recently_changed

pytest_plugins = ["pytester"]

LONG = "import pytest, time\npytestmark = pytest.mark.long({paths})\ndef test_it(): {body}\ndef test_more(): pass\n"


def commit(folder: Path, file: str, when_unix_s: int) -> None:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file)
    for words in (["add", "-A"], ["commit", "-qm", file]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=folder,
            check=True,
            env={"GIT_COMMITTER_DATE": f"{when_unix_s} +0000", "PATH": "/usr/bin:/bin:/usr/local/bin"},
        )


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest("from tests.conftest import *")
    pytester.makeini("[pytest]\nmarkers = long: slow")
    subprocess.run(["git", "init", "-q"], cwd=pytester.path, check=True)
    commit(pytester.path, "gateway/old.py", 1_700_000_000)
    commit(pytester.path, "spark_jobs/new.py", 1_700_200_000)
    return pytester


def test_changes_of_the_last_day_before_head_are_recent(project: pytest.Pytester) -> None:
    assert recently_changed(project.path) == {"spark_jobs/new.py"}


def test_without_a_repository_nothing_is_known_to_have_changed(tmp_path: Path) -> None:
    assert recently_changed(tmp_path) == frozenset()


def test_a_path_guards_itself_and_its_folder_only() -> None:
    changed = frozenset({"gateway/session/fetch/plan.py"})

    assert guards(["gateway/session"], changed)
    assert guards(["gateway/session/fetch/plan.py"], changed)
    assert not guards(["gateway/sess", "ha_core"], changed)


def test_files_that_guard_recent_changes_run_first(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_a=LONG.format(paths="'gateway'", body="pass"),
        test_b=LONG.format(paths="'gateway'", body="pass"),
        test_z=LONG.format(paths="'spark_jobs'", body="pass"),
    )

    run = project.runpytest_subprocess(f"--start-no-file-after={int(time.time()) + 600}", "-v")

    run.assert_outcomes(passed=6)
    run.stdout.fnmatch_lines(["test_z.py::test_it*", "test_z.py::test_more*", "test_?.py::test_it*"])
    run.stdout.fnmatch_lines(["*0 files not run*"])


def test_no_file_starts_after_the_deadline_and_those_left_out_are_named(project: pytest.Pytester) -> None:
    deadline = int(time.time()) + 5
    project.makepyfile(
        test_a=LONG.format(paths="'gateway'", body="pass"),
        test_z=LONG.format(paths="'spark_jobs'", body=f"time.sleep(max(0, {deadline + 1} - time.time()))"),
    )

    run = project.runpytest_subprocess(f"--start-no-file-after={deadline}")

    # The file that had started ran to its end.
    run.assert_outcomes(passed=2, skipped=2)
    run.stdout.fnmatch_lines(["*1 files not run*", "test_a.py"])
