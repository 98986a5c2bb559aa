"""`status --watch`: looks again and again, and draws a terminal's screen anew, or prints one page for each look.

A look may take seconds while something is away, so it runs in a thread; the keys are read meanwhile.
"""

import os
import queue
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ha_core.cli.command import CommandRun
from ha_core.cli.exits import SUCCESS
from ha_core.cli.output import STYLES
from ha_core.model.shown import shown
from ha_core.operations.overview.fleet import FleetWatch
from ha_core.operations.overview.picture import Picture
from ha_core.present.page import Marked
from ha_core.present.problems import away, problems_page
from ha_core.present.screen import WIDTH, screen, wrapped
from ha_core.store.errors import StoreUnavailableError

KEY_S = 0.1
_ALTERNATE, _NORMAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@dataclass(frozen=True, slots=True)
class ScreenLook:
    """:ivar picture: None: ZooKeeper does not answer."""

    picture: Picture | None
    lines: list[str]


@dataclass
class Looker:
    session: CommandRun
    _watch: FleetWatch = field(default_factory=FleetWatch)

    def look(self) -> ScreenLook:
        try:
            fleet = self._watch.look(self.session.environment)
        except StoreUnavailableError as error:
            lines = [line for text in problems_page([away(str(error))]) for line in wrapped(str(text), WIDTH)]
            return ScreenLook(None, lines)
        return ScreenLook(fleet.picture, screen(fleet))


def watch(session: CommandRun, interval_s: float) -> NoReturn:
    """Ends by q, by ctrl-C, or when the reader of the pipe ends: all are success."""
    looker = Looker(session)
    try:
        if sys.stdout.isatty() and sys.stdin.isatty() and not session.out.as_json:
            _on_terminal(looker, interval_s)
        else:
            _in_pipe(looker, interval_s, session)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Python would write to the pipe once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(SUCCESS)


def _in_pipe(looker: Looker, interval_s: float, session: CommandRun) -> None:
    while True:
        began = time.monotonic()
        found = looker.look()
        if session.out.as_json:
            session.out.result(found.picture or {"problems": [], "result": "refused"})
        else:
            sys.stdout.write("\n".join(shown(line) for line in found.lines) + "\n\n")
            sys.stdout.flush()
        time.sleep(max(0.0, interval_s - (time.monotonic() - began)))


def _on_terminal(looker: Looker, interval_s: float) -> None:
    looks: queue.Queue[ScreenLook | BaseException] = queue.Queue()

    def look() -> None:
        try:
            looks.put(looker.look())
        except BaseException as error:  # the main thread raises it
            looks.put(error)

    with _raw_screen():
        _draw(["looking …", "", "q: end"])
        while True:
            began = time.monotonic()
            threading.Thread(target=look, name="look", daemon=True).start()
            found = None
            while found is None:
                if _ended():
                    return
                found = looks.get_nowait() if not looks.empty() else None
            if isinstance(found, BaseException):
                raise found
            _draw([*found.lines, Marked(f"each {interval_s:g} s; q: end", "dim")])
            while time.monotonic() - began < interval_s:
                if _ended():
                    return


def _ended() -> bool:
    """Waits a moment for a key; whether it is q, or the terminal is gone."""
    ready, _, _ = select.select([sys.stdin], [], [], KEY_S)
    return bool(ready) and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"")


@contextmanager
def _raw_screen() -> Iterator[None]:
    """The terminal's second screen, with keys that arrive at once and are not shown."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        sys.stdout.write(_ALTERNATE)
        yield
    finally:
        sys.stdout.write(_NORMAL)
        sys.stdout.flush()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _draw(lines: Sequence[str]) -> None:
    """Draws over what is there, in one write: nothing flickers. Lines that do not fit are counted."""
    size = os.get_terminal_size()
    narrow = [part for line in lines for part in wrapped(line, size.columns)]
    if len(narrow) > size.lines:
        left = len(narrow) - size.lines + 1
        narrow = [*narrow[: size.lines - 1], Marked(f"… {left} more lines: make the terminal taller; q: end", "dim")]
    text = (_TO_END_OF_LINE + "\r\n").join(_coloured(line) for line in narrow)
    sys.stdout.write(f"{_HOME}{text}{_TO_END_OF_LINE}{_BELOW}")
    sys.stdout.flush()


def _coloured(line: str) -> str:
    console = Console(force_terminal=True, highlight=False, soft_wrap=True, color_system="standard")
    with console.capture() as captured:
        console.print(Text(shown(line), style=STYLES[line.mark] if isinstance(line, Marked) else ""), end="")
    return captured.get()
