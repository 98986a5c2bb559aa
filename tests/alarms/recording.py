"""Recorded series: scraped of a real stack before and during a fault, and how promtool reads them.

A recording is as short as a fault takes to show. Alarms wait for minutes, so the last step of the fault is repeated:
gauges stay, and whatever grew goes on to grow as it did.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, repeat
from pathlib import Path
from typing import Any, Self

import yaml

FOLDER = Path(__file__).parent / "recordings"
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"
EVERY_S = 5
"""Between two scrapes."""
LATELY = 12
"""Scrapes within which a time has to change that is a sign of life."""
STEPS = 4
"""A series goes on to change as it did in its last so many scrapes."""
_NAME = re.compile(r"\b(?:up|process_\w+|switchyard_\w+)\b")


def rules() -> list[dict[str, Any]]:
    """Every alarm."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def metrics_of(texts: Iterable[str]) -> list[str]:
    """The metrics that these expressions use."""
    return sorted({name for text in texts for name in _NAME.findall(text)})


@dataclass(frozen=True)
class Recording:
    """
    :ivar began_s: time of the first scrape, since 1970.
    :ivar series: name and labels, as promtool reads them → a value for each scrape; None: there was none.
    """

    fault: str
    began_s: float
    series: Mapping[str, list[float | None]]

    @classmethod
    def of(cls, fault: str, scraped: Iterable[Mapping[str, Any]], now_s: float, seconds: int) -> Self:
        """:param scraped: as `Prometheus.samples` returns it."""
        began_s, count = now_s - seconds, seconds // EVERY_S + 1
        series: dict[str, list[float | None]] = {}
        for one in scraped:
            labels = {key: text for key, text in one["metric"].items() if key != "__name__"}
            named = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
            values: list[float | None] = [None] * count
            for at_s, text in one["values"]:
                place = round((at_s - began_s) / EVERY_S)
                if 0 <= place < count:
                    values[place] = float(text)
            for place in range(1, count - 1):
                if values[place] is None and values[place + 1] is not None:
                    values[place] = values[place - 1]  # one scrape was late, and came as the next one
            series[f"{one['metric']['__name__']}{{{named}}}"] = values
        return cls(fault, began_s, series)

    @classmethod
    def read(cls, fault: str) -> Self:
        document = json.loads((FOLDER / f"{fault}.json").read_text())
        series = {name: list(_unpacked(text)) for name, text in document["series"].items()}
        return cls(fault, document["began_s"], series)

    def write(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(_packed(values))}" for name, values in sorted(self.series.items())
        )
        text = f'{{"began_s": {self.began_s:.3f}, "series": {{\n{lines}\n}}}}\n'
        (FOLDER / f"{self.fault}.json").write_text(text)

    def input_series(self, minutes: int) -> list[dict[str, str]]:
        """For promtool, whose time begins at 0."""
        more = minutes * 60 // EVERY_S
        return [
            {"series": name, "values": " ".join(_texts(self._lasting(name, values, more)))}
            for name, values in self.series.items()
        ]

    def _lasting(self, name: str, values: list[float | None], more: int) -> Iterable[float | None]:
        shifted = [
            None if value is None else value - self.began_s if "_timestamp_seconds" in name else value
            for value in values
        ]
        yield from shifted
        if "_timestamp_seconds" in name:
            # Signs of life come at intervals of their own: one that came lately goes on to come.
            lately = {value for value in shifted[-1 - LATELY :] if value is not None}
            alive, newest = len(lately) > 1, shifted[-1] if shifted[-1] is not None else shifted[-2]
            for number in range(1, more + 1):
                yield None if newest is None else newest + number * EVERY_S * alive
            return
        last, before = shifted[-1], shifted[-1 - STEPS]
        # A series that was missing at two scrapes in a row has ended; one scrape may miss it.
        last = shifted[-2] if last is None else last
        grows = name.partition("{")[0].endswith(("_total", "_seconds", "_bucket", "_count", "_sum"))
        step = 0.0 if last is None or before is None or not grows else max(0.0, (last - before) / STEPS)
        for number in range(1, more + 1):
            yield None if last is None else last + number * step


def _packed(values: Iterable[float | None]) -> str:
    """`5*3 _` are three times 5 and a scrape without a value."""
    runs = [(value, len(list(those))) for value, those in groupby(values)]
    return " ".join(
        f"{'_' if value is None else repr(round(value, 3))}{f'*{count}' if count > 1 else ''}" for value, count in runs
    )


def _unpacked(text: str) -> Iterator[float | None]:
    for run in text.split():
        value, _, count = run.partition("*")
        yield from repeat(None if value == "_" else float(value), int(count or 1))


def _texts(values: Iterable[float | None]) -> Iterable[str]:
    """Prometheus marks the end of a series: else it would show the last value for five minutes more."""
    before: float | None = None
    for value in values:
        if value is None:
            yield "_" if before is None else "stale"
        else:
            yield f"{value:.6g}" if abs(value) < 1e5 else f"{value:.3f}"
        before = value
