"""`python -m stack.clients KIND …`."""

import sys
from collections.abc import Callable
from importlib import import_module

from stack.clients.kinds import PROGRAMS
from stack.clients.options import Options, parse


def main() -> int:
    kind, options = parse(sys.argv[1:], sorted(PROGRAMS))
    module, function = PROGRAMS[kind]
    program: Callable[[Options], int] = getattr(import_module(f"stack.clients.{module}"), function)
    return program(options)


if __name__ == "__main__":
    sys.exit(main())
