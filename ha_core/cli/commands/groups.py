"""`topics`, `groups`, `group`: what is written where and who is how far, wherever the records are."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.command import Answer, Session, command
from ha_core.operations.inventory import lag_of, lags, look_at_groups, overview
from ha_core.present.state import group_page, groups_page, topics_page


@command("topics", "All topics of all clusters: where they are written, what they hold, who is behind.")
def topics(session: Session) -> Answer:
    found = overview(session.environment)
    return Answer(found.to_json(), topics_page(found))


@command("group", "A group's committed offsets, its lag, and where the record to be read next lies.")
def group(session: Session, name: Annotated[str, typer.Argument(metavar="GROUP")]) -> Answer:
    found = lag_of(session.environment, name)
    return Answer(found.to_json(), group_page(found))


@command("groups", "All groups of all clusters with their lag.")
def groups(session: Session) -> Answer:
    view = session.environment.store.load()
    look = look_at_groups(session.environment, view)
    found = lags(session.environment, view, look)
    document = {"groups": [one.to_json() for one in found], "unasked": dict(look.why)}
    return Answer(document, groups_page(found, look.why))
