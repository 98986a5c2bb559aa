"""Words that a reader has to read twice, found in docstrings and comments; and classes that share a name.

`docs/words.md` has the words; CONTRIBUTING, "English", has the rules.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.syntax import tree

ROOT = Path(__file__).parent.parent
WORDS = ROOT / "docs" / "words.md"
PRODUCT = ("ha_core", "gateway", "spark_jobs", "dags", "plugins", "deploy", "stack", "bench")
FOLDERS = (*PRODUCT, "tests", ".ci")

SHARED_CLASS_NAMES: Mapping[str, str] = {
    "Listener": "the rebalance listeners of two client libraries, each inside the function that needs its library",
}
"""Class names that two modules of the product may share, each with the reason."""

_BEGINS = re.compile(r"(?:^|[.:;] )(Of|What|Which|Who|Whoever|The same|Whose|Nobody|Somebody) [a-z]")
_ACTORS = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)


class Prose(NamedTuple):
    line: int
    text: str


def prose(source: str) -> Iterator[Prose]:
    """Docstrings, strings below attributes, and comments."""
    for node in ast.walk(tree(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                for place, paragraph in enumerate(re.split(r"\n\s*\n|\n\s*(?=[:*-])", text)):
                    yield Prose(node.lineno + place, " ".join(paragraph.split()))
            case _:
                pass
    block: list[str] = []
    begun = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#( noqa|!| type:| pragma)", token.string):
            begun = begun or token.start[0]
            block.append(token.string.removeprefix("#").strip())
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT) and block:
            yield Prose(begun, " ".join(block))
            block, begun = [], 0


def twice(source: str) -> list[str]:
    """Lines and texts that a reader has to read twice."""
    return [f"{line}: {text[:120]}" for line, text in prose(source) if _BEGINS.search(text) or _ACTORS.search(text)]


_COUNTED = re.compile(
    r"^ (days|groups|members|mirrors|offsets|operations|partitions|problems|records|revisions|rows|topics|users)"
    r"\b(?![/-])"
)


def plurals(source: str) -> list[str]:
    """Plural nouns behind a number that may be 1, in f-strings. "1 of 1 partitions" passes."""
    found = []
    for node in ast.walk(tree(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for value, after in pairwise(node.values):
            match value, after:
                case ast.FormattedValue(value=counted), ast.Constant(value=str(text)) if _COUNTED.match(text):
                    if not (before.endswith("of ") or ast.unparse(counted).isupper()):
                        found.append(f"{value.lineno}: {{{ast.unparse(counted)}}}{text[:40]}")
                case ast.Constant(value=str(text)), _:
                    before = text
                    continue
                case _:
                    pass
            before = ""
    return found


def files(folders: tuple[str, ...]) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_name_their_actor_first(folder: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{text}" for path in files((folder,)) for text in twice(path.read_text())]
    assert not found, f'{len(found)} sentences to rewrite (CONTRIBUTING, "English"):\n' + "\n".join(found)


@pytest.mark.parametrize("folder", ["ha_core/present", "ha_core/operators", "ha_core/operations/overview"])
def test_pages_have_singulars_for_one(folder: str) -> None:
    """`amount` words a number with its noun."""
    found = [f"{path.relative_to(ROOT)}:{text}" for path in files((folder,)) for text in plurals(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["{count:,} records", "{len(x)} revisions behind", "lag {lag} records"])
def test_a_plural_behind_a_number_is_found(text: str) -> None:
    assert plurals(f'a = f"{text}"')


@pytest.mark.parametrize("text", ["{rate} records/s", "{a} of {b} partitions", "at most {MAX_ROWS} rows"])
def test_a_plural_that_is_never_of_one_passes(text: str) -> None:
    assert not plurals(f'a = f"{text}"')


def test_no_two_classes_of_the_product_share_a_name() -> None:
    places = defaultdict(set)
    for path in files(PRODUCT):
        for node in ast.walk(tree(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(str(path.relative_to(ROOT)))
    shared = {name: sorted(where) for name, where in places.items() if len(where) > 1}
    assert shared.keys() == SHARED_CLASS_NAMES.keys(), shared


@pytest.mark.parametrize(
    "text",
    [
        "Of which topic nobody is refused, and why.",
        "Counts bytes. What is left over goes to the next one.",
        ":ivar limit: for whoever asks.",
    ],
)
def test_a_sentence_that_is_read_twice_is_found_in_docstrings_attributes_and_comments(text: str) -> None:
    docstring, comment = f'"""{text}"""\n', f"a = 1\n# {text}\n"
    attribute = f'class A:\n    b: int\n    """{text}"""\n'

    assert twice(docstring)
    assert twice(attribute)
    assert twice(comment)


def test_a_sentence_with_subject_verb_and_object_passes() -> None:
    assert not twice('"""The gateway refuses a request that names a fenced topic."""\n# Brokers keep what is needed.\n')


def test_places_in_the_table_of_words_exist() -> None:
    rows = [line for line in WORDS.read_text().splitlines() if line.startswith("|")]
    places = {place for row in rows for place in re.findall(r"`([a-z_]+/[a-z_/]+)` \|$", row)}
    roots = (ROOT, ROOT / "ha_core")
    missing = [p for p in places if not any((r / p).is_dir() or (r / f"{p}.py").is_file() for r in roots)]
    assert places
    assert not missing
