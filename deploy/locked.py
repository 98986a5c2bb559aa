"""`python locked.py NAME…`: the lines of requirements.txt, with hashes, that these packages need.

An image gets only the packages that its process imports, at the locked versions. The lock's `# via` comments have the
dependencies; `pip --require-hashes` refuses the result if a package is missing.
"""

import re
import sys
from collections.abc import Collection
from pathlib import Path

_PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*])?==", re.MULTILINE)
_VIA = re.compile(r"^    # +(?:via +)?([A-Za-z0-9][A-Za-z0-9._-]*)$", re.MULTILINE)


def normal(name: str) -> str:
    """A package's normalized name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """Package → its lines in the lock."""
    starts = [(normal(found[1]), found.start()) for found in _PACKAGE.finditer(lock)]
    ends = [start for _, start in starts[1:]] + [len(lock)]
    return {name: lock[start:end].rstrip() for (name, start), end in zip(starts, ends, strict=True)}


def needed(lock: dict[str, str], roots: Collection[str]) -> dict[str, str]:
    """The entries of the roots and of all their dependencies, direct or not.

    :raises KeyError: a root is not in the lock.
    """
    chosen = {normal(root) for root in roots}
    for root in chosen:
        if root not in lock:
            raise KeyError(f"{root} is not in the lock: add it to requirements.in and run `make lock`")
    needed_by = {name: {normal(via) for via in _VIA.findall(text)} - {"via"} for name, text in lock.items()}
    while more := {name for name, users in needed_by.items() if users & chosen} - chosen:
        chosen |= more
    return {name: text for name, text in lock.items() if name in chosen}


if __name__ == "__main__":
    _lock = entries((Path(__file__).parent / "requirements.txt").read_text("utf-8"))
    print("\n".join(needed(_lock, sys.argv[1:]).values()))
