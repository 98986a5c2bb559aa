"""Links the topics that patterns choose, beside the driver's loop, while this driver leads.

A look at a route takes as long as its clusters do; routes are looked at in parallel and do not wait for each other. The
driver only says that it leads. Two leads that look at once, or one that stood still, do no harm
(`ha_core.operations.running.pattern_linking`).
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

from ha_core.model import PatternLook
from ha_core.operations.running.pattern_linking import PatternLinking, Route, RouteLook
from ha_core.store.errors import StoreError

log = logging.getLogger(__name__)
EVERY_S = 5.0
REPEAT_S = 60.0
"""An unchanged result is written again after this time."""
MAX_LINES = 20
"""Most lines about topics in the log, per look."""
_REST = 4.0
"""The pause after a look is at least so many times as long as its listing took: a source with very many topics is
listed more rarely."""
_LOOK_S = 0.2
_AT_ONCE = 8
"""Routes in parallel. One that hangs does not delay the others."""


@dataclass
class _Route:
    """:ivar due_s: time of the next look.
    :ivar kept: key of a pattern → its last stored look, and when it was stored.
    :ivar told: (key, topic) → the reason in the log; the topic is empty for the pattern as a whole.
    """

    due_s: float = 0.0
    busy: Future[None] | None = None
    trouble: str = ""
    kept: dict[str, tuple[PatternLook, float]] = field(default_factory=dict)
    told: dict[tuple[str, str], str] = field(default_factory=dict)


class PatternLinks:
    """Does nothing without the lead."""

    def __init__(self, linking: PatternLinking, every_s: float = EVERY_S) -> None:
        """:param every_s: pause between two looks at the topics of a source."""
        self._linking, self._every_s = linking, every_s
        self._leads = False
        self._routes: dict[Route, _Route] = {}
        self._listed_s = float("-inf")
        self._trouble = ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-patterns", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def follow(self, leads: bool) -> None:
        """Says whether this driver leads. Returns at once; a look that has begun goes on."""
        self._leads = leads

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "mirror-patterns") as pool:
            while not self._ending.wait(_LOOK_S):
                if self._leads:
                    self._look(pool, time.monotonic())
            pool.shutdown(wait=False, cancel_futures=True)

    def _look(self, pool: ThreadPoolExecutor, now_s: float) -> None:
        if now_s - self._listed_s >= min(self._every_s, 1.0):
            self._listed_s = now_s
            self._list()
        for name, route in self._routes.items():
            if route.due_s <= now_s and (route.busy is None or route.busy.done()):
                route.busy = pool.submit(self._pass, name, route)

    def _list(self) -> None:
        try:
            names = self._linking.routes()
        except StoreError as error:
            if self._trouble != str(error):
                log.warning("the patterns of mirrors are unknown: %s", error)
            self._trouble = str(error)
            return
        self._trouble = ""
        self._routes = {name: self._routes.get(name) or _Route() for name in names}

    def _pass(self, name: Route, route: _Route) -> None:
        began_s, found = time.monotonic(), RouteLook([])
        try:
            found = self._linking.look(name)
            for look in found.patterns:
                self._keep(route, look)
            self._tell(route, found.patterns)
            route.trouble = ""
        except StoreError as error:
            if route.trouble != str(error):
                log.warning("topics of %s are not linked to %s: %s", *name, error)
            route.trouble = str(error)
        except Exception:
            log.exception("topics of %s are not linked to %s", *name)
        finally:
            now_s = time.monotonic()
            route.due_s = now_s if found.more else max(began_s + self._every_s, now_s + _REST * found.listing_s)

    def _keep(self, route: _Route, look: PatternLook) -> None:
        before, now_s = route.kept.get(look.key), time.monotonic()
        if before is not None and before[0].changed(at=look.at) == look and now_s - before[1] < REPEAT_S:
            return
        self._linking.environment.store.keep_pattern_look(look)
        route.kept[look.key] = look, now_s

    def _tell(self, route: _Route, looks: Iterable[PatternLook]) -> None:
        """A line for each topic and each pattern whose reason has changed."""
        now: dict[tuple[str, str], str] = {}
        lines: list[str] = []
        for look in looks:
            reasons = {topic.topic: (topic.code or topic.state, topic.reason) for topic in look.topics}
            if look.trouble:
                reasons[""] = look.trouble, look.trouble
            for topic, (code, reason) in reasons.items():
                now[look.key, topic] = code
                if route.told.get((look.key, topic)) != code:
                    what = f"{topic} is not as the pattern {look.key} asks" if topic else f"pattern {look.key}"
                    lines.append(f"{what}: {reason}")
        route.told = now
        for line in lines[:MAX_LINES]:
            log.info("%s", line)
        if len(lines) > MAX_LINES:
            log.info("and %d more; `switchyard mirrors` has them", len(lines) - MAX_LINES)
