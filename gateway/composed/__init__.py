"""Composed answers, from several clusters: pure generators, one file per API family.

A handler does no I/O: it yields its questions and is sent the answers (`handlers.Handler`), so that a test can play
every order of events.
"""

from importlib import import_module
from pkgutil import iter_modules

from gateway.composed.handlers import HANDLERS

for _module in iter_modules(__path__):  # each declares the APIs that it `handles`
    import_module(f"{__name__}.{_module.name}")

__all__ = ["HANDLERS"]
