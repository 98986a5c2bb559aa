"""Writes whose reply is lost are recognised before they are done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ha_core.store.errors import StoreError, StoreUnavailableError
from ha_core.store.tree import RefusedError, ReplyLostError, Tree

T = TypeVar("T")
MAX_ATTEMPTS = 20


def once(tree: Tree, what: str, write: Callable[[], T], recognise: Callable[[], T | None]) -> T:
    """The result of `write`, made once whatever happens to its replies.

    `recognise` looks for the write in the tree: None if it is not there. It is also asked when a repeated write is
    refused: the first one may have been on its way until then, and is then what the second one collides with.

    :raises StoreUnavailableError: the outcome is unknown, since the tree cannot be read either.
    """
    lost = False
    for _ in range(MAX_ATTEMPTS):
        try:
            return write()
        except ReplyLostError:
            lost = True
            found = _look(tree, what, recognise)
            if found is not None:
                return found
        except (RefusedError, StoreError):
            found = _look(tree, what, recognise) if lost else None
            if found is None:
                raise
            return found
    raise StoreUnavailableError(
        f"{what}: {MAX_ATTEMPTS} replies in a row were lost, and the write was not found; "
        "check the network between here and ZooKeeper, then repeat"
    )


def _look(tree: Tree, what: str, recognise: Callable[[], T | None]) -> T | None:
    try:
        tree.sync()
        return recognise()
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{what}: the reply was lost, and whether it was done is unknown; "
            f"repeat it, what was done is recognised: {error}"
        ) from error
