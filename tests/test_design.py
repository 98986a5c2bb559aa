"""Chapters of the design: listed on its page, short, with invariant and drawing; the files that they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/design.md"
CHAPTERS = sorted((ROOT / "docs/design").glob("*.md"))
MOST_LINES, MOST_COLUMNS = 150, 120
PARTS = ("ha_core", "gateway", "spark_jobs", "dags", "plugins", "stack", "tests", "docs")
_MODULE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py)?|[a-z_]+\.py)`")
_LINK = re.compile(r"\]\(([^)]+)\)")


def missing_links(text: str, folder: Path) -> list[str]:
    """Relative links in `text`, a page in `folder`, whose files do not exist."""
    return [link for link in _LINK.findall(text) if not (folder / link.partition("#")[0]).exists()]


def missing_modules(text: str, files: frozenset[str]) -> list[str]:
    """Modules and folders that `text` names by (the end of) their path, and that are not among `files`."""
    return [
        name
        for name in _MODULE.findall(text)
        if not any(file.endswith((f"/{name}", f"/{name.removesuffix('.py')}.py")) for file in files)
    ]


@pytest.fixture(scope="module")
def files() -> frozenset[str]:
    """Paths of the project's files and folders, each with a slash in front."""
    return frozenset(f"/{path.relative_to(ROOT)}" for part in PARTS for path in (ROOT / part).rglob("*"))


def test_the_page_lists_each_chapter_once() -> None:
    listed = re.findall(r"^- \[.+\]\(design/(.+\.md)\): ", PAGE.read_text(), re.MULTILINE)

    assert sorted(listed) == [chapter.name for chapter in CHAPTERS]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_a_chapter_is_short_and_has_its_invariant_reason_and_drawing(chapter: Path) -> None:
    text = chapter.read_text()
    lines = text.splitlines()

    assert len(lines) <= MOST_LINES
    assert [line for line in lines if len(line) > MOST_COLUMNS and not line.startswith("|")] == []
    assert re.match(r"# .+\n\n\*\*Invariant\.\*\* ", text)
    assert "\n\n**Reason.** " in text
    assert "\n```\n" in text


@pytest.mark.parametrize("page", [PAGE, *CHAPTERS], ids=lambda page: page.stem)
def test_files_that_the_design_names_exist(page: Path, files: frozenset[str]) -> None:
    text = page.read_text()

    assert missing_links(text, page.parent) == []
    assert missing_modules(text, files) == []


def test_a_planted_dead_link_and_a_planted_missing_module_are_found() -> None:
    files = frozenset({"/gateway/session/state.py", "/ha_core/plan"})

    assert missing_links("see [x](gone.md) and [y](design.md)", PAGE.parent) == ["gone.md"]
    assert missing_modules("`state.py` `session/state` `ha_core/plan` `session/gone` `gone.py`", files) == [
        "session/gone",
        "gone.py",
    ]


def test_each_page_is_in_the_navigation_of_the_site() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    navigation = set(re.findall(r": ([a-z/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))

    assert navigation == pages
