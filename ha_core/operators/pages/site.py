"""The pages by their paths.

To add one: contents in `ha_core.present.web`, a read in `reading`, and a line in `Site.pages`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from markupsafe import Markup

from ha_core.operators.pages import reading
from ha_core.operators.pages.bodies import Bodies
from ha_core.operators.pages.health import health_read, silent_parts
from ha_core.operators.pages.reading import KNOWN_ERRORS, ReadersBusyError
from ha_core.operators.pages.watched import Watched
from ha_core.present.clients import connections_page, explanations_page
from ha_core.present.web import contents
from ha_core.present.web.airflow import SilentPart
from ha_core.present.web.blocks import blocks, narrowed, text
from ha_core.present.web.layout import REFRESH_MS, WAIT_MS, Filter, document, file
from ha_core.present.web.start import start_contents

T = TypeVar("T")
ASKED_REFRESH_MS = 15_000
"""For pages that read for each viewer."""
MAX_FIELD = 300
"""Characters of a field; names in Kafka have 249 at most."""
Query = Mapping[str, str]
_LOOKING = Markup('<p class="dim" role="status">The first look is under way …</p>')
_ANY_WORDS = (("q", "Rows with"),)


FILES: Mapping[str, str] = {"style.css": "text/css", "live.js": "text/javascript"}
"""Files that the pages load → their media types."""


class BadQueryError(ValueError):
    """A field is too long, or lacks."""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    status: int
    html: str


@dataclass(frozen=True, slots=True)
class SitePage:
    """:ivar tab: path of its tab.
    :ivar fields: of its filter: name and label.
    :ivar answer: makes the page of its fields.
    """

    tab: str
    fields: tuple[tuple[str, str], ...]
    answer: Callable[[Query], WebAnswer]


class Site:
    """All pages. Thread-safe."""

    def __init__(self) -> None:
        self._fleet = Watched(reading.fleet_read(), KNOWN_ERRORS)
        # A look of its own: Airflow's database may hang, and then the fleet has to be seen all the same.
        self._airflow = Watched(health_read, KNOWN_ERRORS)
        self._migrations = Watched(reading.migrations_read, KNOWN_ERRORS)
        self._topics = Watched(reading.topics_read, KNOWN_ERRORS)
        self._clients = Watched(reading.clients_read, KNOWN_ERRORS)
        self._bodies = Bodies()
        self.pages: Mapping[str, SitePage] = {
            "fleet": SitePage("fleet", (), self._fleet_page),
            "migrations": SitePage("migrations", _ANY_WORDS, self._migrations_page),
            "topics": SitePage("topics", _ANY_WORDS, self._topics_page),
            "groups": SitePage("groups", _ANY_WORDS, self._groups_page),
            "clients": SitePage("clients", _CLIENT_FIELDS, self._clients_page),
            "history": SitePage("history", _HISTORY_FIELDS, _history),
            "mirrors": SitePage("mirrors", (), self._mirrors_page),
            "topic": SitePage("topics", (), self._topic_page),
            "group": SitePage("groups", (), _group),
            "operation": SitePage("history", (), _operation),
            "start": SitePage("fleet", (), _start),
        }

    def answer(self, path: str, query: Query, viewer: str = "") -> WebAnswer:
        """:param path: one of `pages`.
        :param viewer: the user of Airflow.
        """
        page = self.pages[path]
        reading.viewer.set(viewer)
        try:
            for name, value in query.items():
                if len(value) > MAX_FIELD:
                    raise BadQueryError(f"{name} has {len(value)} characters, more than {MAX_FIELD}.")
            return page.answer(query)
        except ReadersBusyError as error:
            return _refused(page.tab, str(error), 503)
        except KNOWN_ERRORS as error:
            return _refused(page.tab, str(error), 400 if isinstance(error, BadQueryError) else 503)

    def file(self, name: str) -> str:
        """:param name: one of `FILES`."""
        return file(name)

    def _fleet_page(self, _: Query) -> WebAnswer:
        silent = self._silent_parts()
        return self._watched(
            "Fleet",
            "fleet",
            self._fleet,
            lambda look: contents.fleet_contents(look.fleet, silent),
            variant=",".join(one.name for one in silent),
        )

    def _silent_parts(self) -> tuple[SilentPart, ...]:
        seen = self._airflow.seen()
        return () if seen.value is None or seen.age_s is None else tuple(silent_parts(seen.value, seen.age_s))

    def _mirrors_page(self, _: Query) -> WebAnswer:
        return self._watched(
            "Mirrors",
            "mirrors",
            self._fleet,
            lambda look: contents.mirrors_contents(
                look.fleet.picture.mirrors, look.below_mirrors, look.sources_away, look.fleet.picture.at
            ),
        )

    def _migrations_page(self, query: Query) -> WebAnswer:
        return self._rows("Migrations", "migrations", self._migrations, contents.migrations_contents, query)

    def _topics_page(self, query: Query) -> WebAnswer:
        return self._rows("Topics", "topics", self._topics, contents.topics_contents, query)

    def _groups_page(self, query: Query) -> WebAnswer:
        return self._rows("Groups", "groups", self._topics, contents.groups_contents, query)

    def _topic_page(self, query: Query) -> WebAnswer:
        name = _needed(query, "name")
        look, seen = reading.topic_read(name), self._topics.seen()
        groups = None
        if seen.value is not None:
            groups = [one for one in seen.value.groups if any(part.topic == name for part in one.partitions)]
        body = contents.topic_contents(name, look.topic, look.clusters, groups)
        return WebAnswer(200, document(name, body, tab="topics", refresh_ms=ASKED_REFRESH_MS))

    def _clients_page(self, query: Query) -> WebAnswer:
        filled = _filled(_CLIENT_FIELDS, query)
        user, client_id, name = (query.get(field, "") for field in ("user", "client_id", "name"))
        if user and name:
            why = reading.explanations(user, client_id, name)
            body = blocks(explanations_page(why.answers, why.agree, why.unanswered))
            return WebAnswer(200, document("Clients", body, tab="clients", fields=filled, refresh_ms=ASKED_REFRESH_MS))
        asked = {field: query.get(field, "") for field in ("user", "client_id", "address", "cluster")}
        words = query.get("q", "").strip()
        if any(asked.values()):
            some = reading.some_clients(**asked)
            page = connections_page(some.rows, some.totals, some.unanswered, True, some.shared)
            return WebAnswer(
                200,
                document(
                    "Clients", blocks(narrowed(page, words)), tab="clients", fields=filled, refresh_ms=ASKED_REFRESH_MS
                ),
            )
        return self._watched(
            "Clients",
            "clients",
            self._clients,
            lambda all_: blocks(
                narrowed(connections_page(all_.rows, all_.totals, all_.unanswered, False, all_.shared), words)
            ),
            words,
            filled,
        )

    def _watched(
        self,
        title: str,
        tab: str,
        watched: Watched[T],
        show: Callable[[T], Markup],
        words: str = "",
        fields: tuple[Filter, ...] = (),
        variant: str = "",
    ) -> WebAnswer:
        """:param words: of the viewer's filter.
        :param variant: one of several bodies of a look, the same for all viewers.
        """
        seen = watched.seen()
        if seen.value is None:
            body = Markup("") if seen.error else _LOOKING
            refresh_ms = REFRESH_MS if seen.error else WAIT_MS
            return WebAnswer(
                503 if seen.error else 200,
                document(title, body, tab=tab, fields=fields, error=seen.error, refresh_ms=refresh_ms),
            )
        made = self._bodies.body(f"{tab} {variant}", words, seen, show)
        return WebAnswer(200, document(title, made.html, tab=tab, fields=fields, age_s=made.age_s, error=seen.error))

    def _rows(
        self, title: str, tab: str, watched: Watched[T], show: Callable[[T, str], Markup], query: Query
    ) -> WebAnswer:
        """A page whose tables are filtered by words."""
        words = query.get("q", "").strip()
        filled = _filled(_ANY_WORDS, query)
        return self._watched(title, tab, watched, lambda found: show(found, words), words, filled)


_CLIENT_FIELDS = (
    ("q", "Rows with"),
    ("user", "User"),
    ("client_id", "Client id"),
    ("address", "Address"),
    ("cluster", "Cluster"),
    ("name", "Why is it led there: topic, or group:NAME"),
)
_HISTORY_FIELDS = (
    ("user", "User"),
    ("topic", "Topic"),
    ("cluster", "Cluster"),
    ("by", "Asked or approved by"),
    ("since", "From (UTC)"),
    ("until", "Until (UTC)"),
)


def _history(query: Query) -> WebAnswer:
    asked = {name: query.get(name, "").strip() for name, _ in _HISTORY_FIELDS}
    found = reading.history_read(**asked, before=query.get("before", ""))
    given = {name: value for name, value in asked.items() if value}
    older = f"history?{urlencode({**given, 'before': found.older})}" if found.older else ""
    body = contents.history_contents(found.operations, older, len(found.operations))
    refresh_ms = 0 if given or query.get("before") else ASKED_REFRESH_MS  # a search may look at 10,000 operations
    filled = _filled(_HISTORY_FIELDS, query)
    return WebAnswer(200, document("History", body, tab="history", fields=filled, refresh_ms=refresh_ms))


def _operation(query: Query) -> WebAnswer:
    look = reading.operation_read(_needed(query, "id"))
    body = contents.operation_contents(look.operation, look.answers, look.entries)
    refresh_ms = ASKED_REFRESH_MS if look.answers.ended_at is None else 0
    return WebAnswer(200, document(look.operation.id, body, tab="history", refresh_ms=refresh_ms))


def _group(query: Query) -> WebAnswer:
    name = _needed(query, "name")
    body = contents.group_contents(reading.group_read(name))
    return WebAnswer(200, document(name, body, tab="groups", refresh_ms=ASKED_REFRESH_MS))


def _start(query: Query) -> WebAnswer:
    dag = _needed(query, "dag")
    fields = {name: value for name, value in query.items() if name != "dag"}
    return WebAnswer(200, document(dag, start_contents(dag, fields), tab="fleet", refresh_ms=0))


def _refused(tab: str, why: str, status: int) -> WebAnswer:
    return WebAnswer(status, document("Not shown", Markup("<p>{}</p>").format(text(why)), tab=tab, error=why))


def _filled(fields: tuple[tuple[str, str], ...], query: Query) -> tuple[Filter, ...]:
    return tuple(Filter(name, label, query.get(name, "")) for name, label in fields)


def _needed(query: Query, name: str) -> str:
    value = query.get(name, "")
    if not value:
        raise BadQueryError(f"The address lacks {name}=….")
    return value
