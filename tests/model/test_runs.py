"""Source records of a copy, by its runs."""

from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Run
from ha_core.model.mirror import begins_at, copied_between


@st.composite
def _runs(draw: st.DrawFn) -> list[Run]:
    runs, source, target = list[Run](), 0, 0
    for _ in range(draw(st.integers(0, 5))):
        source, target = source + draw(st.integers(0, 3)), target + draw(st.integers(0, 3))
        runs.append(Run(source, target, draw(st.integers(1, 6))))
        source, target = runs[-1].after, target + runs[-1].records
    return runs


@given(runs=_runs(), low=st.integers(0, 50), high=st.integers(0, 50), start=st.integers(0, 60))
def test_runs_tell_how_many_records_were_copied_and_where_the_copy_begins(
    runs: list[Run], low: int, high: int, start: int
) -> None:
    copied = {run.source + n: run.target + n for run in runs for n in range(run.records)}

    assert copied_between(runs, low, high) == sum(low <= source < high for source in copied)

    begins = begins_at(runs, start)
    assert all((source >= begins) == (target >= start) for source, target in copied.items())
