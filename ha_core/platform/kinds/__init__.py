"""All kinds: importing this package imports every module here, which registers its kinds."""

import pkgutil
from importlib import import_module

from ha_core.platform.entry import kind_of as kind_of

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
