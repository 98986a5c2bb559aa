"""The part of Airflow's REST API that a run of a DAG needs."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from stack.parts import PartNotReadyError, get_json

POLL_S = 0.2
ANSWER_TIMEOUT_S = 20.0
TRIES = 4
RUN_TIMEOUT_S = 300.0
"""Nine tasks take 20 s on an idle machine, and two minutes on a busy one."""
FINAL = frozenset({"success", "failed"})


class AirflowError(Exception):
    """A request to Airflow failed; the text has its answer."""


@dataclass
class AirflowApi:
    """A signed-in client of one Airflow."""

    url: str
    user: str
    password: str
    _token: str = field(default="", repr=False)

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run; returns the URL of its page.

        It is retried after an internal error, such as a busy database: after that a 409 means that this run exists.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        for tried in range(TRIES):
            try:
                self._ask(f"dags/{dag_id}/dagRuns", body)
                break
            except AirflowError as error:
                if tried and "HTTP Error 409" in str(error):
                    break
                if tried == TRIES - 1 or "HTTP Error 5" not in str(error):
                    raise
                time.sleep(POLL_S)
        return self.page(dag_id, run_id)

    def page(self, dag_id: str, run_id: str) -> str:
        """URL of the page that shows every step."""
        return f"{self.url}/dags/{dag_id}/runs/{quote(run_id, safe='')}"

    def follow(self, dag_id: str, run_id: str, timeout_s: float) -> Iterator[tuple[str, str, float]]:
        """(task, state, seconds) of every task as it ends, until the run has ended.

        :raises AirflowError: the run times out, or fails; the text has the last lines of the failed task.
        """
        run = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
        shown: set[str] = set()
        deadline = time.monotonic() + timeout_s
        while True:
            state = self._ask(run)["state"]
            tasks = self._ask(f"{run}/taskInstances?limit=100")["task_instances"]
            for one in sorted(tasks, key=lambda task: task["end_date"] or ""):
                ended = one["end_date"] and one["state"] in {"success", "failed", "skipped", "upstream_failed"}
                if ended and one["task_id"] not in shown:
                    shown.add(one["task_id"])
                    yield one["task_id"], one["state"], float(one["duration"] or 0)
            if state in FINAL:
                break
            if time.monotonic() > deadline:
                raise AirflowError(f"run {run_id} of {dag_id} still is {state} after {timeout_s:.0f} s")
            time.sleep(POLL_S)
        if state == "failed":
            failed = [one for one in tasks if one["state"] == "failed"]
            words = "\n".join(self._words(run, one) for one in failed)
            raise AirflowError(f"run {run_id} of {dag_id} has failed.\n{words}\nSee {self.page(dag_id, run_id)}")

    def states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Task → state."""
        tasks = self._ask(f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances?limit=100")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks}

    def token(self) -> str:
        """A token for further requests; signs in if there is none yet."""
        if not self._token:
            account = {"username": self.user, "password": self.password}
            answer = get_json(f"{self.url}/auth/token", body=account, timeout_s=ANSWER_TIMEOUT_S)
            self._token = str(answer["access_token"])
        return self._token

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """A task's return value."""
        run = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
        value = self._ask(f"{run}/taskInstances/{task_id}/xcomEntries/return_value?deserialize=true")["value"]
        return json.loads(value) if isinstance(value, str) else value

    def _words(self, run: str, task: Mapping[str, Any]) -> str:
        try:
            log = self._ask(f"{run}/taskInstances/{task['task_id']}/logs/{task['try_number']}?full_content=true")
        except AirflowError as error:
            return f"{task['task_id']}: {error}"
        content = log.get("content", [])
        lines = [
            " ".join([str(one.get("event", "")), *(str(e.get("exc_value")) for e in one.get("error_detail") or ())])
            for one in content
            if isinstance(one, Mapping)
        ]
        return "\n".join(f"{task['task_id']}: {line}" for line in lines[-8:])

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        for tries_left in reversed(range(1 if body else TRIES)):  # a request that changes something is not repeated
            try:
                return get_json(f"{self.url}/api/v2/{path}", self.token(), body, timeout_s=ANSWER_TIMEOUT_S)
            except PartNotReadyError as error:
                if not tries_left or "HTTP Error 4" in str(error):
                    raise AirflowError(str(error)) from error
        raise AssertionError("unreachable")


def tell_tasks(airflow: AirflowApi, dag_id: str, run_id: str, say: Callable[[str], None]) -> None:
    """Follow a run to its end, with one line per task; raises AirflowError."""
    for task, state, seconds in airflow.follow(dag_id, run_id, RUN_TIMEOUT_S):
        say(f"  {task} {state}" + (f" after {seconds:.2f} s" if state == "success" else ""))
