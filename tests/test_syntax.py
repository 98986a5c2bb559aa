import ast
import gc
from collections.abc import Iterator

import pytest

from tests.syntax import tree

SOURCE = "\n".join(f"def f{n}(a):\n    return [a + {n}, (a, {n})]" for n in range(500))


class Finalizer:
    """Garbage that only the cycle collector frees, and that parses while it is freed."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("freed")


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.collect()


def test_modules_are_parsed_while_freed_garbage_parses_too(eager_collector: None) -> None:
    garbage = [Finalizer() for _ in range(50)]
    del garbage

    module = tree(SOURCE)

    assert len(module.body) == 500
    assert gc.isenabled()
