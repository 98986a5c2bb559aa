"""Pages for browsers: escaped, linked, filtered and bounded."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from ha_core.model import Extent, Topic
from ha_core.operations.migration.listing import TopicMigration
from ha_core.operators.pages.reading import left_behind_of
from ha_core.plan.facts.problem import Problem
from ha_core.plan.migration.status import PartitionStatus, TopicStatus
from ha_core.present.page import Marked, Table
from ha_core.present.web.blocks import ITSELF, MAX_ROWS, blocks, narrowed
from ha_core.present.web.contents import migrations_contents
from ha_core.present.web.drawings import MAX_CELLS, cut_bar, extents_drawing
from ha_core.present.web.layout import Filter, document
from ha_core.present.web.problems import FORMS, form_address, problem_cards
from ha_core.present.web.start import FIELDS, start_contents
from tests.kit.operations import a_switch

HOSTILE = "<script>alert(1)</script>\" onload='x' `code`"


class Tags(HTMLParser):
    """Names of tags and of their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_no_text_of_a_client_becomes_markup() -> None:
    table = Table(("topic", "user", "note"), [(HOSTILE, HOSTILE, Marked(HOSTILE, "bad"))], title=HOSTILE)
    problem = Problem(
        "cluster-away",
        HOSTILE,
        HOSTILE,
        HOSTILE,
        HOSTILE,
        follows=(Problem("no-gateway", HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
    )
    topic = Topic.model_construct(
        name=HOSTILE, partitions={0: (Extent(cluster=HOSTILE, start=0, base=0, writer_epoch=0),)}
    )
    body = blocks([table, HOSTILE]) + problem_cards([problem], [problem]) + extents_drawing(topic)
    found = Tags(document(HOSTILE, body, fields=[Filter("q", HOSTILE, HOSTILE)], error=HOSTILE))
    form = Tags(str(start_contents("fail_over_cluster", {"cluster": HOSTILE})))

    assert "script" in found.tags  # the page's own, with an address
    assert str(body).count("<script") == 0
    assert not [name for name in found.attributes | form.attributes if name.startswith("on")]
    assert "alert(1)</script>" not in document(HOSTILE, body).replace("&lt;", "")


def test_direction_marks_and_line_breaks_of_a_client_are_seen_wherever_its_name_stands() -> None:
    name = "till\u202e\u2066\ncurl evil"
    problem = Problem("direct-group-used", f"group {name}", name, name, f"switchyard group '{name}'")
    above = Problem("cluster-away", name, "", "", "", follows=(problem,))

    html = document(name, problem_cards([problem, above], [problem]), error=name)

    assert "\u202e" not in html
    assert "\u2066" not in html
    assert "\ncurl" not in html
    assert "till\\u202e" in html


def test_cells_of_names_lead_to_their_pages() -> None:
    table = Table(("operation", "topic", "user", "group", "lag"), [("switch-1", "a b", "alice", "", "7")])

    html = str(blocks([table]))

    assert '<a href="operation?id=switch-1">' in html
    assert '<a href="topic?name=a%20b">' in html
    assert '<a href="clients?user=alice">' in html
    assert "group?name=" not in html  # an empty cell leads nowhere


@pytest.mark.parametrize(
    ("cell", "linked"), [("https://airflow/dags/switch/runs/r", True), ("javascript:alert(1)", False), (HOSTILE, False)]
)
def test_the_page_of_an_approval_is_a_link_out_of_the_frame(cell: str, linked: bool) -> None:
    html = str(blocks([Table(("run", "page"), [("r", cell)])], links={"page": ITSELF}))

    assert (f'<a href="{cell}" target="_top">' in html) is linked
    assert ("<a " in html) is linked


def test_records_left_behind_are_told_while_their_cluster_is_away() -> None:
    """The page of mirrors said only "no topic is mirrored" after a forced switch."""
    left = Problem("not-reconciled", "cluster east", "Topics are written in west.", "Reconcile.", "switchyard …")
    away = Problem("cluster-away", "cluster east", "It is away.", "Repair it.", "switchyard …", follows=(left,))

    assert left_behind_of([away, Problem("no-gateway", "gateways", "", "", "")]) == [left]


def test_a_filter_looks_in_all_rows_and_an_answer_is_bounded() -> None:
    table = Table(("topic", "lag"), [(f"orders-{number}", number) for number in range(10_000)], title="topics")

    whole, one = str(blocks([table])), str(blocks(narrowed([table], "ORDERS-9999")))

    assert whole.count("<tr>") == MAX_ROWS + 1
    assert "9,800 more rows" in whole
    assert len(whole) < 100_000
    assert one.count("<tr>") == 2
    assert "1 of 10,000 rows" in one


def test_a_problem_leads_to_the_form_that_mends_it_with_its_subject_filled_in() -> None:
    problem = Problem("cluster-away", "cluster east", "It is away.", "Repair it.", "switchyard mask east")

    html = str(problem_cards([problem]))

    assert 'href="start?dag=fail_over_cluster&amp;cluster=east"' in html
    assert "switchyard mask east" in html
    assert form_address("usage-full", "usage") == ""
    assert "Nothing waits" in str(problem_cards([]))


@pytest.mark.parametrize("form", FORMS.values())
def test_each_linked_form_is_a_dag_whose_form_has_the_fields(form: tuple[str, str, str]) -> None:
    dag, field, _ = form
    source = (Path("dags") / f"{dag}.py").read_text("utf-8")

    assert not field or field in {one.name for one in FIELDS[dag]}
    for one in FIELDS[dag]:
        assert f'"{one.name}"' in source or "of_cluster" in source


def test_a_start_form_posts_to_the_api_of_airflow_and_refuses_unknown_fields() -> None:
    html = str(start_contents("reconcile_returned_cluster", {"cluster": "east"}))

    assert 'data-api="../api/v2/dags/reconcile_returned_cluster/dagRuns"' in html
    assert 'value="east"' in html
    assert 'name="dry_run" checked' in html
    with pytest.raises(ValueError, match="no field yes"):
        start_contents("reconcile_returned_cluster", {"yes": "1"})
    with pytest.raises(ValueError, match="no form for it"):
        start_contents("switch", {})


def test_a_migration_that_has_not_begun_to_cross_leads_to_the_form_that_takes_it_back() -> None:
    def migration(topic: str, operation: str, *reached: bool) -> TopicMigration:
        partitions = tuple(
            PartitionStatus(n, "east", "west", 10, ignore_origin=False, crosses=True, end=10 if there else 5)
            for n, there in enumerate(reached)
        )
        moved = a_switch(id=operation)
        return TopicMigration(TopicStatus(topic, "Migrating", partitions), moved, 1.0)

    html = str(migrations_contents([migration("a", "m-1", False, False), migration("b", "m-2", True, False)], ""))

    assert 'href="start?dag=rollback_migration&amp;operation=m-1"' in html
    assert "operation=m-2" not in html
    assert 'value="m-1"' in str(start_contents("rollback_migration", {"operation": "m-1"}))


def test_an_overdue_drill_leads_to_a_form_that_has_all_that_its_schedule_knows() -> None:
    # Given a schedule with two entries in its scope
    schedule = {"scope": "user:canary\ntopic:orders", "from": "east", "to": "west", "schedule": "quarterly"}
    command = "switchyard drill run"
    problem = Problem("drill-overdue", "drill schedule quarterly", "Due.", "Run it.", command, form=schedule)
    # When its card's link is followed
    (address,) = [one for one in str(problem_cards([problem])).split('"') if one.startswith("start?")]
    fields = dict(parse_qsl(address.replace("&amp;", "&").partition("?")[2]))
    html = str(start_contents(fields.pop("dag"), fields))
    # Then nothing but the reason is left to type
    assert "user:canary\ntopic:orders</textarea>" in html
    for name, value in (("from", "east"), ("to", "west"), ("schedule", "quarterly"), ("reason", "")):
        assert f'name="{name}" value="{value}"' in html
    # And a value that no address takes is left out
    long = "\n".join(f"topic:orders-{number}" for number in range(100))
    assert "scope" not in form_address("drill-overdue", "drill schedule quarterly", {"scope": long})


def test_a_bar_shows_reached_waiting_and_unknown_partitions_in_words_too() -> None:
    partitions = (
        PartitionStatus(0, "east", "west", 10, False),
        PartitionStatus(1, "east", "west", 20, False, crosses=True, end=15),
        PartitionStatus(2, "east", "west", 30, False, crosses=True),
    )

    html = str(cut_bar(TopicStatus("orders", "Migrating", partitions)))
    many = str(cut_bar(TopicStatus("orders", "Migrated", tuple(partitions[:1] * 1_000))))

    assert "has reached its cut at 10" in html
    assert "5 records to its cut at 20" in html
    assert "its end is not known; its cut is at 30" in html
    assert "1 of 3 partitions" in html
    assert many.count("<rect") <= MAX_CELLS


def test_the_extents_of_a_topic_are_drawn_with_their_numbers() -> None:
    topic = Topic(
        name="orders",
        partitions={
            0: (
                Extent(cluster="east", start=0, end=1_500, base=0, writer_epoch=0),
                Extent(cluster="west", start=1_500, base=0, writer_epoch=1),
            )
        },
    )

    html = str(extents_drawing(topic))

    assert html.count("<rect") == 2 + 2  # the bars, and the keys of two clusters
    assert "east [0, 1,500) → 0" in html
    assert "west [1,500, …) → 0" in html
