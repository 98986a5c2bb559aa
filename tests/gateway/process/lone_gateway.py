"""A whole gateway in the test's own process, beside a store in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from gateway.config import load
from gateway.process.gateway import Gateway
from ha_core.store.store import Store
from stack.memory_store import MemoryStore
from tests.kit.own_gateway import free_port


@asynccontextmanager
async def lone_gateway(folder: Path, store: Store | None = None, **sections: Any) -> AsyncIterator[Gateway]:
    """Any client may enter.

    :param sections: of its configuration, in place of those here.
    """
    document = {
        "id": "gw",
        "zookeeper": {"hosts": "nowhere:1"},
        "listen": {"port": free_port()},
        "authentication": {"anonymous": True},
        "record_facts_s": 0,
    }
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(document | sections))
    gateway = Gateway(load(file), MemoryStore() if store is None else store, "test")
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()
