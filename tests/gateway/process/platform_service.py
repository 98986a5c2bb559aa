"""The platform's service in the test's own process, over an SQLite file: it can go away and come back."""

import socket
import threading
from pathlib import Path

import uvicorn

from ha_core.datacache.poller import ChangeNotifier
from ha_core.operations.access.publishing import PublishingQuotas
from ha_core.platform.changing import put
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.scram import derive_all
from ha_core.platform.serving.app import make_app
from ha_core.platform.serving.tokens import parse
from stack.certificates import Certificate
from stack.memory_store import MemoryStore
from tests.kit.waiting import until

GATEWAY_TOKEN, OTHER_TOKEN = "g" * 40, "h" * 40
ITERATIONS = 4096


class PlatformService:
    """:ivar registry: the content that it serves; its changes are announced as those by REST."""

    def __init__(self, folder: Path, store: MemoryStore, shown: Certificate | None = None) -> None:
        """:param shown: with it, it speaks TLS."""
        self._shown = shown
        self.registry = Platform.open(f"sqlite:///{folder}/platform.db")
        self._announcer = ChangeNotifier(self.registry.read.newest_us, store.client, look_s=0.1)
        self._announcer.start()
        self._publishing = PublishingQuotas(self.registry.source("quotas"), store.client, look_s=0.1)
        self._publishing.start()
        self.publishes_quotas = True
        self.registry.on_change(self._announcer.now, self._publishing.now)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.tokens = [f"gateway old {GATEWAY_TOKEN}", f"gateway new {OTHER_TOKEN}"]

    @property
    def url(self) -> str:
        return f"{'http' if self._shown is None else 'https'}://127.0.0.1:{self.port}"

    def begin(self) -> None:
        shown = self._shown
        config = uvicorn.Config(
            make_app(self.registry, parse("\n".join(self.tokens), "the test"), self.publishes_quotas),
            host="127.0.0.1",
            port=self.port,
            log_level="error",
            ssl_certfile=None if shown is None else str(shown.certificate),
            ssl_keyfile=None if shown is None else str(shown.key),
        )
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=server.run, daemon=True)
        self._thread.start()
        until(lambda: server.started, timeout_s=20)

    def go_away(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join()
            self._server = self._thread = None

    def close(self) -> None:
        self.go_away()
        self._announcer.close()
        self._publishing.close()
        self.registry.database.close()

    def put_user(self, name: str, password: str, super_user: bool = False) -> None:
        user = UserEntry.read({"name": name, "super_user": super_user, "scram": derive_all(password, ITERATIONS)})
        entry = self.registry.read.find("users", name)
        self.registry.apply([put(user, None if entry is None else entry.version)], "somebody", "test")

    def delete_user(self, name: str) -> None:
        self.registry.delete_user(name, self.registry.read.get("users", name).version, "somebody", "test")

    def grant(self, user: str, topic: str) -> str:
        rule = RuleEntry.read(
            {"principal": f"User:{user}", "resource_type": "topic", "name": topic, "operation": "read"}
        )
        return self.registry.create(rule, "somebody", "test").key

    def revoke(self, key: str) -> None:
        self.registry.delete("rules", key, self.registry.read.get("rules", key).version, "somebody", "test")
