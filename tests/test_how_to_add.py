"""The page on adding one more of a kind lists exactly the places to change."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/how-to-add.md"
NUMBERS_OF_ALL_APIS = Path("ha_core/wire/codes.py")


@dataclass(frozen=True)
class Section:
    kind: str
    count: int
    places: tuple[Path, ...]
    example: tuple[str, ...]
    """Names of the example. Empty: the section has none."""
    looked_at: tuple[Path, ...]
    """Places of the example: files, and folders of Python files."""

    def unlisted(self) -> set[Path]:
        """Files with the example's name that are not listed, and listed files without it."""
        return self._naming() ^ {place for place in self.places if any(_below(place, top) for top in self.looked_at)}

    def _naming(self) -> set[Path]:
        named = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in self.example))
        return {
            path.relative_to(ROOT)
            for top in self.looked_at
            for path in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*.py"))
            if (path.stem in self.example or named.search(path.read_text()))
            and path.relative_to(ROOT) != NUMBERS_OF_ALL_APIS
        }


def _below(place: Path, top: Path) -> bool:
    return place == top or top in place.parents


def sections(page: str) -> Iterator[Section]:
    for text in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading = re.match(r"(.+): (\d+) places?\n", text)
        if heading is None:
            continue
        example = re.search(r"^Example: (.+?) in (.+?)\n\n", text, re.MULTILINE | re.DOTALL)
        yield Section(
            heading[1],
            int(heading[2]),
            tuple(Path(place) for place in re.findall(r"^\d+\. `([^`]+)`:", text, re.MULTILINE)),
            tuple(_quoted(example[1])) if example else (),
            tuple(map(Path, _quoted(example[2]))) if example else (),
        )


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


SECTIONS = list(sections(PAGE.read_text()))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.kind)
def test_a_section_lists_the_stated_number_of_places_and_all_exist(section: Section) -> None:
    assert len(section.places) == section.count
    assert [place for place in section.places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("section", [one for one in SECTIONS if one.example], ids=lambda section: section.kind)
def test_the_example_is_named_in_the_listed_places_and_nowhere_else(section: Section) -> None:
    assert section.unlisted() == set()


def test_the_page_has_a_section_for_each_kind_that_is_often_added() -> None:
    assert len(SECTIONS) >= 7


@pytest.mark.parametrize(
    "text",
    [
        "## An API: 1 place\n\nExample: `SYNC_GROUP` in `ha_core/wire`\n\n1. `ha_core/wire/apis.py`: its row\n",
        "## A kind: 1 place\n\nExample: `NOBODY` in `ha_core/wire`\n\n1. `ha_core/wire/schemas/groups.py`: its words\n",
    ],
)
def test_a_place_too_few_and_one_too_many_are_found(text: str) -> None:
    (section,) = sections(text)

    assert section.unlisted() == {Path("ha_core/wire/schemas/groups.py")}
