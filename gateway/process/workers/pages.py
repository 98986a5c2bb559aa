"""The gateway's HTTP pages, merged from those of its workers (`gateway/process/operator_pages`,
`gateway/process/metrics`)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import Metric

from gateway.model.counts import PREFIX
from gateway.process.operator_pages import DEFAULT_ROWS
from gateway.process.workers.totals import Totals
from gateway.process.workers.worker_queries import PageAnswer, WorkerPage, ask
from ha_core.metrics.http import Asked, Families, JsonPage, render

_families = Families(PREFIX)
READY_S = 1.0
"""Time for a worker to answer whether it is ready: probes do not wait for much longer."""
_Found = tuple[int, object]


class WorkersState(NamedTuple):
    """The workers as their parent knows them.

    :ivar pages: of workers that serve clients, or are about to for the first time.
    :ivar all_have_served: every worker has served once, so the start is over.
    :ivar coming_back: numbers of workers that have died and do not serve again yet. They get no clients, so the gateway
        is ready without them.
    """

    pages: Sequence[WorkerPage]
    wanted: int
    all_have_served: bool
    coming_back: Sequence[int]
    ended: int
    """How many have died so far."""


class Pages:
    def __init__(self, gateway: str, standing: Callable[[], WorkersState], totals: Totals) -> None:
        self._gateway, self._standing, self._totals = gateway, standing, totals

    def unready(self) -> list[str]:
        """Reasons not to send clients to this gateway; empty when it is ready.

        Once all workers have served, a single ready one is enough: it takes new clients, and clients of the others are
        sent to other gateways. Taking the gateway out of service for one worker would harm the clients of all.
        """
        now = self._standing()
        missing = now.wanted - len(now.pages) - len(now.coming_back)
        reasons = [f"{missing} of {now.wanted} workers have only begun"] if missing > 0 else []
        if not now.pages:
            return reasons or ["no worker lives"]
        ready = 0
        for answer in ask(now.pages, "/readyz", timeout_s=READY_S):
            document = _document(answer)
            if document is None:
                reasons.append(f"worker {answer.page.worker} does not answer")
            elif not document.get("ready"):
                reasons += (f"worker {answer.page.worker}: {why}" for why in document.get("reasons", ()))
            else:
                ready += 1
        if now.all_have_served:
            return [] if ready else reasons
        # A worker's page shows ready a moment before the parent reads that it serves. If the worker died in between,
        # the gateway would end as if it could not start.
        return reasons or ["not every worker has reported that it serves"]

    def metrics(self) -> bytes:
        now = self._standing()
        texts = {answer.page.start: answer.body for answer in ask(now.pages, "/metrics") if answer.status == _OK}
        return render(_Collected([*self._totals.of(texts), *_own(now, len(texts))]))

    def more(self) -> Mapping[str, JsonPage]:
        """By path."""
        return {"/connections": self._connections, "/explain": self._explain}

    def _connections(self, request: Asked) -> _Found:
        """Rows of all workers, in the order of a single worker's page."""
        documents, silent, refusal = self._documents("/connections", request)
        if refusal is not None:
            return refusal
        rows = [row for document in documents for row in document["connections"]]
        rows.sort(key=lambda row: tuple(row[field] or "" for field in ("user", "client_id", "address", "since")))
        limit = int(request.fields.get("limit", DEFAULT_ROWS))
        total = sum(document["total"] for document in documents)
        return _OK, {"gateway": self._gateway, "total": total, "connections": rows[:limit], **silent}

    def _explain(self, request: Asked) -> _Found:
        documents, silent, refusal = self._documents("/explain", request)
        if refusal is not None:
            return refusal
        last = min(documents, key=lambda document: int(document["revision"]))
        answers = [{**document, "gateway": self._gateway, "revision": last["revision"]} for document in documents]
        if all(answer == answers[0] for answer in answers):
            return _OK, answers[0] | silent
        # A worker may see a topic, or follow a change, later than another: then each answer is shown.
        first, *others = documents
        return _OK, {**first, "others": others, **silent}

    def _documents(self, path: str, request: Asked) -> tuple[list[dict[str, Any]], dict[str, Any], _Found | None]:
        """The workers' documents and the errors of those without an answer; or the one answer to give instead."""
        answers = ask(self._standing().pages, path, request.fields, request.token)
        documents: list[dict[str, Any]] = []
        silent: dict[str, str] = {}
        for answer in answers:
            document = _document(answer)
            if document is None:
                silent[f"{self._gateway}.{answer.page.worker}"] = f"worker {answer.page.worker} does not answer"
            elif answer.status != _OK:
                return [], {}, (answer.status, document)
            else:
                documents.append(document)
        if documents:
            return documents, {"unanswered": silent} if silent else {}, None
        return [], {}, (503, {"error": "; ".join(silent.values()) or "no worker lives"})


_OK = 200


def _document(answer: PageAnswer) -> dict[str, Any] | None:
    try:
        document = json.loads(answer.body) if answer.status else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _own(now: WorkersState, answered: int) -> Iterable[Metric]:
    yield _families.gauge("workers", "Worker processes, as configured.", now.wanted)
    yield _families.gauge("workers_answering", "Workers that have answered.", answered)
    yield _families.counter("workers_ended", "Workers that have died and were restarted.", now.ended)


class _Collected(NamedTuple):
    metrics: list[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics
