"""Problems and notices for people: one line for each cause, below it the way out, and what ends with it."""

from collections.abc import Collection, Iterator
from pathlib import Path

from ha_core.plan.facts.problem import Problem, codes_table
from ha_core.plan.facts.verdict import amount, duration
from ha_core.present.page import Mark, Marked, Page

MAX_FOLDED = 10
"""Problems named below their cause."""


def problems_page(problems: Collection[Problem]) -> Page:
    if not problems:
        yield "nothing waits for an operator"
        return
    yield Marked(f"{amount(len(problems), 'problem', 'waits', 'wait')} for an operator:", "strong")
    for problem in problems:
        yield from problem_lines(problem, "bad")


def notices_page(notices: Collection[Problem]) -> Page:
    if notices:
        yield Marked("worth knowing, no alarm:", "strong")
        for notice in notices:
            yield from problem_lines(notice, "warning")


def away(error: str) -> Problem:
    """The problem of a check that does not reach ZooKeeper."""
    return Problem(
        "zookeeper-away",
        "zookeeper",
        error,
        "Gateways refuse writes when their lease ends. See whether a majority of its members runs, and the way to it.",
        "switchyard status --check",
    )


def problem_lines(problem: Problem, mark: Mark) -> Iterator[str]:
    yield Marked(f"{problem.about}: {problem.code}{age(problem)}", mark)
    yield f"  {problem.text}"
    yield f"  {problem.remedy}"
    yield f"  $ {problem.command}"
    for follower in problem.follows[:MAX_FOLDED]:
        yield f"  └ {follower.about}: {follower.code}: {follower.text}"
    if (more := len(problem.follows) - MAX_FOLDED) > 0:
        yield f"  └ and {amount(more, 'more problem')} that {'ends' if more == 1 else 'end'} with it (--json)"


def age(problem: Problem) -> str:
    """A time that a check has noted says at least for how long the problem is there."""
    if problem.age_s is None:
        return ""
    return f", {'for' if problem.age == 'stored' else 'seen for'} {duration(problem.age_s)}"


PAGE = Path("docs/problems.md")
_BEGINNING = """# Problems

`python -m ha_core.cli.reference` writes this page from `ha_core/plan/facts/problem.py`: do not edit it.

`switchyard status --check` prints problems and notices. Its exit code is 6 if there is an alarm, 0 if there is none,
and 4 if ZooKeeper does not answer (problem `zookeeper-away`). With `--json`, `problems` and `notices` have for each:

| field | content |
|---|---|
| `code` | one of the codes below; stable |
| `about` | the subject |
| `text`, `remedy` | the problem and the way out, for people; they may change |
| `command` | a whole command to paste, which loses no record. Where none mends the problem, it shows more of it |
| `since`, `age_s` | the time and its age in seconds; null: unknown |
| `age` | `stored`: the state has the time; `seen`: a check saw the problem first at that time (`/seen_problems`) |
| `follows` | problems that end with this one, such as mirrors of a cluster that is away; each with all these fields |

Codes may be added. A problem that may end by itself (a gateway in a rolling restart, for example) is a notice until it
is a minute old.

"""


def codes_page() -> str:
    return _BEGINNING + "\n".join(codes_table()) + "\n"
