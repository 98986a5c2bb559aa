"""The check of commit subjects that `make lint` makes."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parent.parent / ".ci" / "subjects.py"


def git(repository: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)


def check(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECK), *words]
    return subprocess.run(command, check=False, cwd=repository, capture_output=True, text=True)


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--initial-branch", "main")
    git(tmp_path, "commit", "--allow-empty", "-m", "An old subject that no rule has seen")
    git(tmp_path, "checkout", "-b", "work")
    return tmp_path


def test_a_subject_of_area_verb_and_object_passes(branch: Path) -> None:
    git(branch, "commit", "--allow-empty", "-m", "gateway: bound half-sent requests by their start\n\nWhat: any body.")

    assert check(branch).returncode == 0


@pytest.mark.parametrize(
    "subject",
    [
        "Only a fence has what was found long ago be asked for anew",
        "gateway: what departed behind a refused batch does not cross",
        "gateway: " + "x" * 70,
        "Gateway: bound requests",
    ],
)
def test_a_subject_that_breaks_the_rule_is_named_with_its_commit(branch: Path, subject: str) -> None:
    git(branch, "commit", "--allow-empty", "-m", subject)

    done = check(branch)

    assert done.returncode == 1
    assert subject in done.stderr
    assert "git rebase -i" in done.stderr


def test_commits_that_are_on_main_are_not_judged_again(branch: Path) -> None:
    git(branch, "checkout", "main")

    assert check(branch).returncode == 0


def test_an_unknown_base_is_an_error(branch: Path) -> None:
    done = check(branch, "nowhere")

    assert done.returncode != 0
    assert "nowhere" in done.stderr
