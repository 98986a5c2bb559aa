"""An operation's answers to an audit, and checks of the history's seals, as pages."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import Operation
from ha_core.model.judgement import Judgement
from ha_core.operations.audit.answers import Answers, Cost
from ha_core.operations.audit.checking import SealReport
from ha_core.operations.audit.pushing import PushReport
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.page import Marked, Page, Table

NOT_KNOWN = "not known"
MAX_ROWS = 50
"""Findings, cuts and users on a terminal; `--json` has all that are kept."""


def answers_page(operation: Operation, found: Answers) -> Page:
    """Ten questions, each with its answer."""
    yield Marked(f"{operation.id}: {operation.kind}, {operation.state}", "strong")
    yield f"1 who asked: {found.asked_by or NOT_KNOWN}{_run(found)}"
    yield f"2 who approved: {_approval(found)}"
    begun = f"begun {found.begun_at}; ended {found.ended_at or 'not yet'}"
    yield f"3 when: asked {found.asked_at}; {_approved_at(found)}{begun}"
    yield f"4 why: {found.why}"
    yield f"5 what was to move: {_scope(found)}"
    yield f"6 what was checked: {'' if found.checked else NOT_KNOWN}".rstrip()
    for one in found.checked:
        yield from _judgement(one)
    if found.compared is not None:
        some = found.compared
        records = amount(some.records, "record")
        yield f"  copies: {some.ranges:,} of {some.of_ranges:,} ranges compared ({records}), equal"
    yield f"7 what moved: {_moved(found)}"
    if found.cuts:
        rows = [(cut.topic, cut.partition, cut.cut, cut.hole or "", cut.origin, cut.target) for cut in found.cuts]
        yield Table(("topic", "partition", "cut", "hole", "from", "to"), rows, max_rows=MAX_ROWS, whole=("topic",))
    yield f"8 how long each step: {', '.join(f'{step.name} {step.ms:g} ms' for step in found.steps) or NOT_KNOWN}"
    yield f"9 cost for clients: {_cost(found.cost)}"
    if found.cost.users:
        users = [(user.user, user.refused, f"{user.longest_ms:.1f}") for user in found.cost.users]
        yield Table(("user", "requests refused", "longest wait ms"), users, max_rows=MAX_ROWS, whole=("user",))
    yield f"10 result: {found.result or found.state}"
    yield f"   next: {'; '.join(f'`{one}`' for one in found.next) or 'nothing'}"


def _run(found: Answers) -> str:
    more = [found.run_url or "", f"DAG bundle {found.bundle_version}" if found.bundle_version else ""]
    others = found.executors[1:]
    more.append(f"continued by {listed(others)}" if others else "")
    text = ", ".join(filter(None, more))
    return f" ({text})" if text else ""


def _approval(found: Answers) -> str:
    if found.approval is None:
        return NOT_KNOWN
    return found.approved_by or NOT_KNOWN if found.approval else "no approval was asked for"


def _approved_at(found: Answers) -> str:
    return f"approved {found.approved_at or NOT_KNOWN}; " if found.approval else ""


def _scope(found: Answers) -> str:
    words = [listed(found.scope) or NOT_KNOWN]
    if found.route is not None:
        words.append(" → ".join(found.route))
    if found.mode is not None:
        words += [found.mode, amount(len(found.topics), "topic"), amount(len(found.groups), "group")]
    return ", ".join(words)


def _judgement(one: Judgement) -> Iterator[str | Table]:
    counts = ", ".join(amount(count, level) for level, count in one.counts.items() if level != "info")
    infos = one.counts.get("info", 0)
    found = ", ".join(filter(None, (counts, f"{infos} info" if infos else ""))) or "no objection"
    yield f"  at {one.at}, on revision {one.revision}: {found}"
    rate = NOT_KNOWN if one.records_per_s is None else f"{one.records_per_s:g} records/s"
    if one.rate_from or one.expected_fence:
        yield f"  rate {rate} ({one.rate_from or 'no source'}); expected fence: {one.expected_fence or NOT_KNOWN}"
    if one.creates:
        yield f"  created in the target: {listed(f'{name} with {n}' for name, n in one.creates.items())}"
    if one.lag_records:
        lags = [f"{group} {NOT_KNOWN if lag is None else f'{lag:,}'}" for group, lag in one.lag_records.items()]
        yield f"  lag of groups, records: {listed(lags)}"
    if one.findings:
        rows = [
            (finding.level, finding.code, finding.about, f"{finding.text} {finding.remedy}".rstrip())
            for finding in one.findings
        ]
        yield Table(("level", "code", "about", "finding"), rows, max_rows=MAX_ROWS)
    if one.left_out:
        yield f"  … and {amount(one.left_out, 'finding')} more, which were not kept"


def _moved(found: Answers) -> str:
    if found.state == "undone":
        return "nothing, it was taken back"
    what = [amount(len(found.cuts), "partition")] if found.cuts else []
    if found.moved_groups:
        what.append(amount(len(found.moved_groups), "group"))
    if not what:
        what.append("no partition")
    return f"{' and '.join(what)}, in revision {found.revision or NOT_KNOWN}"


def _cost(cost: Cost) -> str:
    if not cost.fences:
        return "no fence, no client was refused"
    fence = NOT_KNOWN if cost.fenced_ms is None else f"{cost.fenced_ms:g} ms"
    if cost.users is None or cost.refused is None:
        return f"fence {fence}; requests refused and longest wait of each user {NOT_KNOWN}"
    refused = amount(cost.refused, "request")
    more = f", {amount(cost.users_left_out, 'user')} more than are named" if cost.users_left_out else ""
    lacking = f"; {NOT_KNOWN} of gateways {listed(cost.not_known_of)}" if cost.not_known_of else ""
    return f"fence {fence}; {refused} refused, to be sent again{more}{lacking}"


def seals_page(report: SealReport) -> Page:
    for fault in report.faults:
        yield Marked(f"{fault.kind}: {fault.about}: {fault.text}", "error")
    anchor, newest = report.anchor, report.newest
    what = f"{amount(report.checked, 'sealed operation')} checked"
    if report.checked:
        what += f", seals {anchor.number + 1} to {newest.number}"
    yield what + (f"; {amount(len(report.faults), 'fault')}" if report.faults else "; none is changed or missing")
    if anchor.number:
        yield f"seal {anchor.number} and those before it are not here; its hash is taken as it is: {anchor}"
    if report.earlier:
        yield (
            f"{amount(report.earlier, 'operation')} without a seal ended before the first one: `switchyard history "
            "seal` seals them as they are now"
        )
    yield f"fingerprint to keep elsewhere: {newest}"


def push_page(report: PushReport) -> Page:
    if report.error:
        yield Marked(report.error, "error")
    yield (
        f"{amount(report.pushed, 'operation')} pushed to {report.receiver}, up to seal {report.through}; "
        f"{report.left} left"
    )
