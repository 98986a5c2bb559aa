"""The syntax trees of the project's modules."""

import ast

from ha_core.store.watching import no_search


def tree(source: str) -> ast.Module:
    """Parses without the cycle collector: an object that it frees may log a traceback, for which Python parses in the
    middle of this parsing, and then fails (SystemError, gh-106905).

    :raises SyntaxError: it is no Python.
    """
    with no_search():
        return ast.parse(source)
