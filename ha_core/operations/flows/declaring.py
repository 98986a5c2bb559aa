"""Declares the flows of an `mm2.properties` for workers on any host, and withdraws them, each in one revision."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ha_core.flows.configuration import Configuration
from ha_core.flows.declared import keys_of, keys_of_properties, require_no_secrets, text_of
from ha_core.flows.errors import FlowError
from ha_core.flows.properties import parse
from ha_core.flows.remarks import Remark
from ha_core.mirror_maker.checks import check_live, flows_of_workers, require
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.declared_flows import declared_in
from ha_core.mirror_maker.flows_file import ReadConfiguration, with_own_classes
from ha_core.model import FlowDeclaration
from ha_core.model.flow_declaration import MAX_DECLARATIONS, MAX_DECLARED_CHARACTERS, is_declaration_name
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import LOCKS, Expected, run_single
from ha_core.plan.facts.verdict import amount, listed
from ha_core.platform.documents import parsed
from ha_core.platform.errors import PlatformError


@dataclass(frozen=True, slots=True)
class Declaring:
    """A declaration that would be stored.

    :ivar version: ZooKeeper's version of the stored document; None: there is none.
    :ivar flows: names of the declaration's flows.
    :ivar remarks: remarks about the declaration's keys and clusters.
    :ivar changed: False: the stored declaration already has these keys.
    """

    document: FlowDeclaration
    version: int | None
    flows: tuple[str, ...]
    remarks: tuple[Remark, ...]
    changed: bool

    @property
    def words(self) -> str:
        what = f"{self.document.name}: {amount(len(self.flows), 'flow')}"
        return f"{what} ({', '.join(self.flows)})" if self.flows else f"{what}, so its workers copy nothing"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.document.name,
            "revision": self.document.revision,
            "flows": list(self.flows),
            "remarks": [remark._asdict() for remark in self.remarks],
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True)
class DeclaredOutcome:
    """The result in words. `report` is None if there was nothing to do."""

    words: str
    report: Report | None = None


def plan_declaration(
    environment: Environment,
    name: str,
    text: str,
    reason: str,
    *,
    is_yaml: bool | None = None,
    like_3_9: bool = False,
    probe: bool = True,
) -> Declaring:
    """Read the text, and ask the clusters that it names. Changes nothing.

    :param is_yaml: whether the text is YAML (or JSON) instead of properties; None: detect the format.
    :param like_3_9: whether missing keys have Kafka 3.9's defaults.
    :param probe: whether to ask the clusters; False: references need no value on this host either.
    :raises RefusedError: the name, the reason, the text or its clusters cannot be used; the text lists all errors.
    """
    if not is_declaration_name(name):
        raise unchanged(
            f"{name!r} cannot name a declaration: give at most 100 characters, only letters, digits, '.', '_' and '-'."
        )
    if not reason.strip():
        raise unchanged(f"Declaring {name} needs a reason. Give --reason.")
    with _refusing():
        keys = _keys(text, declared_in(name), is_yaml)
        require_no_secrets(keys, declared_in(name))
        stored = text_of(keys)
        if len(stored) > MAX_DECLARED_CHARACTERS:
            raise FlowError(
                f"{declared_in(name)} has {len(stored):,} characters; at most {MAX_DECLARED_CHARACTERS:,} are possible"
            )
        found = _configuration(stored, name, like_3_9, probe)
        _require_others_differ(environment, found, name)
        remarks = (*found.remarks, *(_asked(environment, found) if probe else ()))
    before = environment.store.read(FlowDeclaration, name)
    if before is None and len(environment.store.flow_declarations()) >= MAX_DECLARATIONS:
        raise unchanged(f"There are {MAX_DECLARATIONS:,} declarations already. Withdraw one.")
    document = FlowDeclaration(
        name=name,
        text=stored,
        like_3_9=like_3_9,
        revision=1 if before is None else before[0].revision + 1,
        by=environment.by,
        since=environment.now(),
        reason=reason.strip(),
    )
    same = before is not None and (before[0].text, before[0].like_3_9) == (stored, like_3_9)
    version = None if before is None else before[1]
    return Declaring(document, version, tuple(flow.name for flow in found.flows), remarks, not same)


def declaration_lock(name: str) -> str:
    return LOCKS[FlowDeclaration](name)


def declare(environment: Environment, plan: Declaring) -> DeclaredOutcome:
    """Store the declaration in one revision. Its workers follow it within seconds.

    :raises LockedError, ConflictError: another operation changes the declaration; nothing was changed.
    """
    document = plan.document
    if not plan.changed:
        return DeclaredOutcome(f"{document.name} is already declared with these keys; nothing was changed")
    detail = {"name": document.name, "revision": document.revision, "flows": list(plan.flows)}
    expected: Expected = {(FlowDeclaration, document.name): plan.version}
    report = run_single(environment, "declare-flows", document.reason, (document,), expected, detail)
    return DeclaredOutcome(f"{plan.words}; revision {document.revision} of the declaration", report)


def withdraw(environment: Environment, name: str, reason: str, dry_run: bool = False) -> DeclaredOutcome:
    """Delete the declaration in one revision. Its workers stop its flows; topics and copies stay.

    :raises RefusedError: there is no declaration of this name, or no reason is given.
    """
    if not reason.strip():
        raise unchanged(f"Withdrawing {name} needs a reason. Give --reason.")
    stored = environment.store.read(FlowDeclaration, name) if is_declaration_name(name) else None
    if stored is None:
        known = listed(one.name for one in environment.store.flow_declarations()) or "none"
        raise unchanged(f"There is no declaration {name!r}. Existing declarations: {known}.")
    running = workers_of(environment, name)
    words = f"{name}: {amount(len(running), 'worker')} stop its flows"
    if dry_run:
        return DeclaredOutcome(f"{words.replace(' stop ', ' would stop ')}")
    detail = {"name": name, "revision": stored[0].revision, "workers": len(running)}
    report = run_single(environment, "withdraw-flows", reason, (), {(FlowDeclaration, name): stored[1]}, detail)
    return DeclaredOutcome(words, report)


def workers_of(environment: Environment, name: str) -> list[str]:
    """`host:pid` of the live workers that follow the declaration."""
    workers = environment.store.flow_workers()
    return sorted(f"{one.host}:{one.pid}" for one in workers if one.file == declared_in(name))


def configuration_of(document: FlowDeclaration) -> Configuration:
    """The flows of a declaration, with its references resolved on this host.

    :raises FlowError: the declaration cannot be used on this host.
    """
    name = declared_in(document.name)
    return ReadConfiguration().of(parse(document.text, name), name, document.like_3_9)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except FlowError as error:
        raise unchanged(str(error)) from error
    except PlatformError as error:
        raise unchanged(str(error)) from error


def _keys(text: str, name: str, is_yaml: bool | None) -> dict[str, str]:
    if len(text) > MAX_DECLARED_CHARACTERS:
        raise FlowError(f"{name} has more than {MAX_DECLARED_CHARACTERS:,} characters")
    if is_yaml is None:
        is_yaml = _looks_like_yaml(text)
    return keys_of(parsed(text, name), name) if is_yaml else keys_of_properties(text, name)


def _looks_like_yaml(text: str) -> bool:
    """Whether the text is a YAML mapping whose keys can be names of properties. In YAML `a = b` is a single string."""
    try:
        found = parsed(text, "")
    except PlatformError:
        return False
    return isinstance(found, dict) and not any(" " in str(key) or "=" in str(key) for key in found)


def _configuration(text: str, name: str, like_3_9: bool, probe: bool) -> Configuration:
    """:param probe: False: references are not resolved."""
    properties, name = parse(text, declared_in(name)), declared_in(name)
    if probe:
        return ReadConfiguration().of(properties, name, like_3_9)
    return with_own_classes(properties, name, like_3_9)


def _asked(environment: Environment, found: Configuration) -> tuple[Remark, ...]:
    clusters = FlowClusters(found.clusters, found.name)
    ours = flows_of_workers(environment.store.flow_workers())
    return (*clusters.remarks, *require(check_live(found, clusters, found.flows, ours), found.name))


def _require_others_differ(environment: Environment, found: Configuration, name: str) -> None:
    """:raises FlowError: another declaration has one of these flows. The workers of both would share the flow, each by
    its own keys, so that only a part of a topic's partitions might be copied."""
    ours = set(_routes(found))
    for other in environment.store.flow_declarations():
        if other.name == name:
            continue
        try:
            theirs = set(_routes(_configuration(other.text, other.name, other.like_3_9, probe=False)))
        except FlowError:
            continue
        if both := sorted(ours & theirs):
            raise FlowError(f"{other.name} already declares {both[0][0]}: remove it from one of the two")


def _routes(found: Configuration) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    bootstrap = {cluster.alias: cluster.bootstrap for cluster in found.clusters}
    for flow in found.flows:
        yield flow.name, bootstrap[flow.source], bootstrap[flow.target]


def require_declared(environment: Environment, name: str) -> FlowDeclaration:
    """:raises RefusedError: there is no such declaration."""
    stored = environment.store.read(FlowDeclaration, name) if is_declaration_name(name) else None
    if stored is None:
        raise RefusedError(f"There is no declaration {name!r}. `switchyard flows declared` lists all declarations.")
    return stored[0]
