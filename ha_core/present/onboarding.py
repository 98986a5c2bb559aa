"""Pages for an existing fleet that comes to the gateways, and goes back."""

from collections.abc import Sequence

from ha_core.operations.access.onboarding import ClientsPast, LeavingCheck
from ha_core.plan.access.onboarding import LeftOut
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.page import Marked, Page, Table

MAX_ROWS = 100


def clients_past_page(found: ClientsPast) -> Page:
    rows = [("commits", f"group {group}", words) for group, words in found.committers.items()]
    rows += [("writes", f"topic {topic}", amount(count, "record")) for topic, count in found.writers.items()]
    if rows:
        yield Marked(f"{found.cluster} has clients that do not come through gateways:", "warning")
        yield Table(("client", "of", f"seen in {found.watched_s:g} s"), rows, max_rows=MAX_ROWS)
    elif not found.not_read:
        yield Marked(f"No client past the gateways was seen in {found.cluster} in {found.watched_s:g} s", "good")
    if found.unclear:
        yield f"Written by clients of gateways, and perhaps by others: {listed(found.unclear)}"
    yield (
        "A client that was silent meanwhile, reads without committing, or uses topics that the service account may not "
        "describe, is not seen."
    )
    for part in found.not_read:
        yield Marked(f"not read: {part}", "warning")


def left_out_page(left_out: Sequence[LeftOut], without_keys: Sequence[str]) -> Page:
    if left_out:
        yield Marked(f"{amount(len(left_out), 'thing')} of the brokers cannot be brought:", "warning")
        yield Table(("kind", "about", "why"), [tuple(one) for one in left_out], max_rows=MAX_ROWS)
    if without_keys:
        yield Marked(
            f"Brokers do not tell secrets of SCRAM users: {listed(without_keys)}. Give each its password before it "
            "comes: `switchyard users password NAME --reason onboard`.",
            "warning",
        )


def leaving_page(found: LeavingCheck) -> Page:
    if found.bonds:
        yield Marked(f"Clients must not go back to the brokers of {found.cluster} yet:", "bad")
        rows = [(one.about, one.text, one.remedy) for one in found.bonds]
        yield Table(("about", "why", "way out"), rows, max_rows=MAX_ROWS)
    elif not found.not_read:
        yield Marked(f"No binding, map, group or position keeps clients from the brokers of {found.cluster}", "good")
    for part in found.not_read:
        yield Marked(f"not read: {part}", "warning")
    yield "Passwords, rules and quotas of the platform are not in the brokers: make them there first."
