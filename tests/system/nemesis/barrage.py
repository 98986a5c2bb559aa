"""Kills and stops all participants at random moments, in parallel, drawn from a seed."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stack.harness import Stack
from tests.system.nemesis.schedule import Does

SHORT_S, SESSION_S, LONG_S = 1.5, 9.0, 40.0
"""Shorter than clients' timeouts, longer than any session, and longer than any request may take."""
_EVERY_S = 8.0
"""Average interval of blows; a broker needs as long to start."""


class Struck(Protocol):
    """A participant that can be killed and stopped."""

    def kill(self) -> None: ...

    def restart(self) -> None:
        """Returns when it works again, or will without help."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


@dataclass(frozen=True)
class StackPart:
    """A part of a stack by its name."""

    stack: Stack
    name: str

    def kill(self) -> None:
        self.stack.kill(self.name)

    def restart(self) -> None:
        self.stack.restart(self.name)

    def pause(self) -> None:
        self.stack.pause(self.name)

    def resume(self) -> None:
        self.stack.resume(self.name)


@dataclass(frozen=True, slots=True)
class Blow:
    """Starts `at_s` after the beginning, or when the previous blow on the part is over."""

    does: Does
    part: str
    at_s: float
    lasts_s: float


def drawn(seed: int, parts: Iterable[str], seconds: float, long_s: float = LONG_S) -> tuple[Blow, ...]:
    """Every part is hit, and none for long at the end, so that recovery can be seen.

    :param parts: one that is named several times is hit as often as several.
    """
    chance, chosen = random.Random(seed), list(parts)
    moments = sorted(chance.uniform(0, seconds) for _ in range(max(len(chosen), int(seconds / _EVERY_S))))
    hit = [*chosen, *(chance.choice(chosen) for _ in moments[len(chosen) :])]
    chance.shuffle(hit)
    lengths = (SHORT_S, SHORT_S, SESSION_S, SESSION_S, long_s)
    return tuple(
        Blow(chance.choice(tuple(Does)), part, at_s, chance.choice(lengths) if at_s < seconds - long_s else SHORT_S)
        for part, at_s in zip(hit, moments, strict=True)
    )


def counted(blows: Iterable[Blow]) -> str:
    """Number of kills and stops of each part, in words."""
    found = Counter(f"{blow.does} {blow.part}" for blow in blows)
    return ", ".join(f"{what} {often}x" for what, often in sorted(found.items()))


@dataclass
class Barrage:
    """Carries out the blows, those on one part one after the other.

    :ivar said: events with their times, for the analysis of a failure.
    """

    struck: Mapping[str, Struck]
    blows: tuple[Blow, ...]
    said: list[str] = field(default_factory=list)
    _failed: list[BaseException] = field(default_factory=list)
    _begun: float = 0.0

    def carry_out(self) -> None:
        """Returns when all blows are over, and everything works again, or will without help."""
        self._begun = time.monotonic()
        by_part: dict[str, list[Blow]] = {}
        for blow in self.blows:
            by_part.setdefault(blow.part, []).append(blow)
        threads = [threading.Thread(target=self._strike_all, args=(one,)) for one in by_part.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _strike_all(self, blows: list[Blow]) -> None:
        try:
            for blow in blows:
                time.sleep(max(0.0, self._begun + blow.at_s - time.monotonic()))
                self._strike(blow, self.struck[blow.part])
        except BaseException as error:
            self._failed.append(error)

    def _strike(self, blow: Blow, struck: Struck) -> None:
        self._say(f"{blow.does} {blow.part} for {blow.lasts_s:.1f} s")
        begin, end = (struck.pause, struck.resume) if blow.does is Does.PAUSE else (struck.kill, struck.restart)
        begin()
        time.sleep(blow.lasts_s)
        end()
        self._say(f"{blow.part} is back")

    def _say(self, what: str) -> None:
        self.said.append(f"{time.strftime('%H:%M:%S')} +{time.monotonic() - self._begun:.1f} s: {what}")
