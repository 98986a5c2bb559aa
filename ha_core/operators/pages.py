"""Pages of Airflow's UI, as HTML. The plugin (`plugins/switchyard_pages.py`) checks who may see them."""

import threading
import time

from airflow.sdk.exceptions import AirflowException

from ha_core.hooks.zookeeper import SwitchyardHook

REFRESH_S = 10
"""Interval at which browsers reload the page."""
LOOK_EVERY_S = 5.0
"""Minimum interval of reads, for all viewers: each read opens a ZooKeeper session, and blocks a thread of the
API server while ZooKeeper is away."""


class PageError(RuntimeError):
    """The page cannot be shown now. The text has the reason."""


class MirrorsPage:
    """State of all mirrors. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._shown: str | PageError = ""
        self._looked_s = float("-inf")

    def html(self) -> str:
        """:raises PageError: the state cannot be read."""
        with self._guard:
            if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
                try:
                    self._shown = _look()
                except PageError as error:
                    self._shown = error
                self._looked_s = time.monotonic()
            shown = self._shown
        if isinstance(shown, PageError):
            raise PageError(str(shown))
        return shown


def _look() -> str:
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.operations.clusters.mirrors import mirrors_now, synced
    from ha_core.operations.mirror.pattern_states import patterns_now
    from ha_core.operations.overview.topic_health import left_behind
    from ha_core.present.mirror_picture import document
    from ha_core.present.mirrors import below_mirrors
    from ha_core.store.errors import StoreError

    try:
        with SwitchyardHook().get_conn("airflow:page") as environment:
            mirrors = mirrors_now(environment)
            looks = synced(environment, mirrors.mirrors)
            left = [*left_behind(environment)]
            below = [*below_mirrors(mirrors, patterns_now(environment), left, looks, environment.age_s)]
            return document(mirrors, below, environment.now())
    except (StoreError, SecurityProfileError, AirflowException, ValueError) as error:
        raise PageError(f"The mirrors cannot be shown: {error}") from error
