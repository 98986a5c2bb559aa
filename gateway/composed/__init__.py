"""Answers that are composed of what several clusters say: pure generators, one file per API family.

A handler never does I/O: it yields what it wants to ask and is sent the answers (`handlers.Handler`), so that every
order of events can be played in a test.
"""

from importlib import import_module
from pkgutil import iter_modules

from gateway.composed.handlers import HANDLERS

for _module in iter_modules(__path__):  # each declares the APIs that it `handles`
    import_module(f"{__name__}.{_module.name}")

__all__ = ["HANDLERS"]
