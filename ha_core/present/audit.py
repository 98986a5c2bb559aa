"""An operation's answers to an audit, and checks of the history's seals, as pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ha_core.model import Operation
from ha_core.model.judgement import Judgement
from ha_core.model.seal import Seal
from ha_core.operations.audit.answers import Answers, Cost
from ha_core.operations.audit.checking import SealReport
from ha_core.operations.audit.pushing import PushReport
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.page import Marked, Page, Table

NOT_KNOWN = "not known"
MAX_VALUE = 500
"""Characters of a changed value on a terminal."""
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
    for key, value in found.changed.items():
        if key == "tails" and _are_tails(value):
            yield Table(_TAILS, [["not known" if cell is None else cell for cell in row[:6]] for row in value])
        else:
            yield f"  {key}: {_value(value)}"
    if found.cuts:
        rows = [(cut.topic, cut.partition, cut.cut, cut.hole or "", cut.origin, cut.target) for cut in found.cuts]
        yield Table(("topic", "partition", "cut", "hole", "from", "to"), rows, max_rows=MAX_ROWS, whole=("topic",))
    yield f"8 how long each step: {', '.join(f'{step.name} {step.ms:g} ms' for step in found.steps) or NOT_KNOWN}"
    yield f"9 cost for clients: {_cost(found.cost)}{_not_counted(operation)}"
    if found.cost.users:
        users = [(user.user, user.refused, f"{user.longest_ms:.1f}") for user in found.cost.users]
        yield Table(("user", "requests refused", "longest wait ms"), users, max_rows=MAX_ROWS, whole=("user",))
    yield f"10 result: {_result(found)}"
    for sentence in found.verified:
        yield f"  verified: {sentence}"
    yield f"   next: {'; '.join(f'`{one}`' for one in found.next) or 'nothing'}"


def _run(found: Answers) -> str:
    more = [found.run_url or ""]
    if found.run_url:
        more.append(f"DAG bundle {found.bundle_version}" if found.bundle_version else "DAG bundle without a version")
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


def _result(found: Answers) -> str:
    if found.state == "undone":
        return f"taken back by {found.executors[-1]}: {found.result or NOT_KNOWN}"
    return found.result or found.state


_TAILS = ("partition", "result", "copied below", "log end", "records lost", "bytes lost")


def _are_tails(value: Any) -> bool:
    """Whether these are the lost tails of a reconciled cluster, as `TailFound.noted` has them."""
    return isinstance(value, list) and all(isinstance(row, list) and len(row) >= len(_TAILS) for row in value)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}… (`--json` has all of it)"


def _moved(found: Answers) -> str:
    if found.state == "undone":
        return "nothing, it was taken back"
    if found.changed:
        return f"no partition; this was changed in revision {found.revision or NOT_KNOWN}:"
    what = [amount(len(found.cuts), "partition")] if found.cuts else []
    if found.moved_groups:
        what.append(amount(len(found.moved_groups), "group"))
    if not what:
        what.append("no partition")
    return f"{' and '.join(what)}, in revision {found.revision or NOT_KNOWN}"


def _cost(cost: Cost) -> str:
    if not cost.fences:
        return "no fence, so no request was refused by one"
    fence = NOT_KNOWN if cost.fenced_ms is None else f"{cost.fenced_ms:g} ms"
    if cost.users is None or cost.refused is None:
        return f"fence {fence}; requests refused and longest wait of each user {NOT_KNOWN}"
    refused = amount(cost.refused, "request")
    more = f", {amount(cost.users_left_out, 'user')} more than are named" if cost.users_left_out else ""
    lacking = f"; {NOT_KNOWN} of gateways {listed(cost.not_known_of)}" if cost.not_known_of else ""
    return f"fence {fence}; {refused} refused, to be sent again{more}{lacking}"


def _not_counted(operation: Operation) -> str:
    """A cost that no gateway counts."""
    if operation.refuses_until:
        return f"; requests fail at once until `{operation.refuses_until}`, and are not counted"
    if operation.forced:
        return "; the time from the cluster's failure to the fence is not in it"
    return ""


def archive_line(seal: Seal | None, file: Path) -> str:
    """The place of an operation in its export."""
    what = "no seal" if seal is None else f"seal {seal.number} of {seal.at}"
    return f"{what}; whether it is unchanged: `switchyard history verify {file}`"


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
    if (changes := report.changes) is not None:
        earlier = f"; {amount(changes.earlier, 'change')} before the first seal" if changes.earlier else ""
        yield f"{amount(changes.checked, 'sealed change')} of the platform (users, rights, quotas) checked{earlier}"
        yield f"fingerprint of the platform to keep elsewhere: {changes.newest}"


def push_page(report: PushReport) -> Page:
    if report.error:
        yield Marked(report.error, "error")
    yield (
        f"{amount(report.pushed, 'operation')} pushed to {report.receiver}, up to seal {report.through}; "
        f"{report.left} left"
    )
