"""A kind of document is one class: the tree, revisions, gateways and operations read its attributes."""

from collections.abc import Iterator

import pytest

from ha_core.model import Document, Operation, View
from ha_core.model.document import DOCUMENT_KINDS
from ha_core.store.commits import StateChange
from ha_core.store.paths import name_of, parse, path_of
from stack.memory_store import MemoryStore


@pytest.fixture
def toy() -> Iterator[type[Document]]:
    class Toy(Document):
        """`/toys/{maker}`."""

        FOLDER = "/toys"
        KEY = "maker"
        REVISED = True
        PLAIN_BYTES = 1_000

        maker: str
        parts: tuple[str, ...] = ()

    yield Toy
    del DOCUMENT_KINDS[Toy.FOLDER]


def put(document: Document, version: int | None = None) -> StateChange:
    key = (type(document), name_of(document))
    return StateChange(change_id=f"{key[1]}-{version}", puts=(document,), expected={key: version})


def test_a_replicated_kind_of_document_needs_only_its_class(toy: type[Document]) -> None:
    # Given
    store = MemoryStore()
    ball = toy.model_validate({"maker": "ann/bo", "parts": ["rubber"] * 1_000})
    # When
    revisions = [store.commit(put(toy.model_validate({"maker": "cy"}))), store.commit(put(ball))]
    # Then
    assert revisions == [1, 2]
    assert store.client().read(toy, "ann/bo") == (ball, 0)
    assert parse(path_of(toy, "ann/bo")) == (toy, "ann/bo")


def test_a_kind_that_no_revision_changes_is_refused(toy: type[Document]) -> None:
    toy.REVISED = False

    with pytest.raises(ValueError, match="Toy cy is not part of the state"):
        put(toy.model_validate({"maker": "cy"}))


def test_every_field_of_a_view_is_of_a_replicated_kind() -> None:
    named = {kind for kind in DOCUMENT_KINDS.values() if kind.REPLICATED}

    assert {kind.__name__ for kind in named} == {
        "Cluster", "UserBindings", "Topic", "Group", "LastSequences", "Mirror", "RemoteTopicPortion", "DirectGroups",
    }  # fmt: skip
    assert View.of(1, {kind: {} for kind in named}) == View(1)
    assert View.of(1, {Operation: {}}) == View(1)
