"""The document around each page: tabs, filter, the age of what it shows. It loads nothing but its style and script."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from ha_core.model.shown import shown
from ha_core.plan.facts.verdict import duration
from ha_core.present.web.blocks import text

TABS: Mapping[str, str] = {
    "fleet": "Fleet",
    "migrations": "Migrations",
    "topics": "Topics",
    "groups": "Groups",
    "clients": "Clients",
    "history": "History",
    "mirrors": "Mirrors",
}
"""Path → title, in order."""
REFRESH_MS = 5_000
"""Interval at which the script replaces the contents."""
WAIT_MS = 700
"""Interval while the first look is still under way."""
_DOCUMENT = Markup("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · Switchyard</title>
<link rel="stylesheet" href="style.css"><script src="live.js" defer></script></head>
<body data-refresh-ms="{refresh_ms}">
<nav>{tabs}</nav>
<h1>{title}</h1>{fields}
<main>{notes}{body}</main>
</body></html>
""")
_BARE_DOCUMENT = Markup("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · Switchyard</title>
<link rel="stylesheet" href="{prefix}style.css"></head>
<body><main>{body}</main></body></html>
""")


class Filter(NamedTuple):
    """An input of a page's filter."""

    name: str
    label: str
    value: str = ""


def document(
    title: str,
    body: Markup,
    *,
    tab: str = "",
    fields: Sequence[Filter] = (),
    age_s: float | None = None,
    error: str = "",
    refresh_ms: int = REFRESH_MS,
) -> str:
    """
    :param tab: path of the tab that the page belongs to.
    :param age_s: age of the contents; None: there are none yet, or they cannot grow old.
    :param error: why there are no newer contents.
    :param refresh_ms: 0: the page stays as it is.
    """
    notes = Markup("")
    if error:
        old = "" if age_s is None else f" Shown is the state of {duration(age_s)} ago."
        notes = Markup('<p class="bad" role="alert">{}{}</p>').format(text(error), old)
    elif age_s is not None:
        notes = Markup('<p class="dim age">as of {} ago</p>').format(duration(age_s))
    return str(
        _DOCUMENT.format(
            title=shown(title),
            tabs=_tabs(tab),
            fields=_fields(fields) if fields else "",
            notes=notes,
            body=body,
            refresh_ms=refresh_ms,
        )
    )


def bare_document(title: str, body: Markup, prefix: str) -> str:
    """A document without tabs, for a frame beside other contents.

    :param prefix: path of the style.
    """
    return str(_BARE_DOCUMENT.format(title=shown(title), body=body, prefix=prefix))


def file(name: str) -> str:
    """The text of `style.css` or `live.js`."""
    return (files(__package__) / name).read_text("utf-8")


def _tabs(current: str) -> Markup:
    return Markup("").join(
        Markup('<a href="{}"{}>{}</a>').format(path, Markup(' aria-current="page"') if path == current else "", title)
        for path, title in TABS.items()
    )


def _fields(fields: Sequence[Filter]) -> Markup:
    inputs = Markup("").join(
        Markup('<label>{} <input name="{}" value="{}" maxlength="300"></label> ').format(one.label, one.name, one.value)
        for one in fields
    )
    return Markup('<form class="filter" method="get">{}<button>Show</button></form>').format(inputs)
