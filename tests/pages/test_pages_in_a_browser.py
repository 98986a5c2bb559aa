"""The pages in Airflow's UI, in Chromium: contents without a reload, links, forms, and a large installation."""

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from ha_core.model import Mirror
from ha_core.present.web.blocks import MAX_ROWS
from ha_core.store.commits import StateChange
from stack.demo.airflow_api import AirflowApi
from stack.harness import Stack
from tests.kit.chromium import browser, missing
from tests.kit.flows import produce
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator, own_stack
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.long("plugins", "ha_core/operators/pages", "ha_core/present/web"),
    pytest.mark.timeout(600),
]
TOPICS = 10_000
CLIENTS = 1_000
TABS = ("fleet", "migrations", "topics", "groups", "clients", "history", "mirrors")
MAX_ANSWER_BYTES = 400_000
FIRST_PAINT_MS = 1_000
PAINTS = "return performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"

stack = own_stack(gateways=1, airflow=True)
environment = operator()


@pytest.fixture(scope="module")
def airflow(stack: Stack) -> AirflowApi:
    assert stack.airflow is not None
    return AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])


@pytest.fixture(scope="module")
def chrome(stack: Stack, airflow: AirflowApi) -> Iterator[Chrome]:
    if why := missing():  # here, because it installs Chromium, which no collection of tests should wait for
        pytest.skip(why)
    with browser() as driver:
        driver.get(f"{airflow.url}/switchyard/style.css")  # a cookie belongs to the site that is open
        driver.add_cookie({"name": "_token", "value": airflow.token(), "path": "/"})
        yield driver
        log = driver.get_log("browser")  # type: ignore[no-untyped-call]
        refused = [line["message"] for line in log if "Security Policy" in line["message"]]
        assert refused == []


def show(chrome: Chrome, airflow: AirflowApi, path: str) -> None:
    chrome.get(f"{airflow.url}/switchyard/{path}")


def text(chrome: Chrome) -> str:
    return chrome.find_element(By.TAG_NAME, "main").text


def test_the_navigation_leads_to_the_fleet_with_its_clusters_and_gateways(chrome: Chrome, airflow: AirflowApi) -> None:
    chrome.get(airflow.url)
    until(lambda: chrome.find_elements(By.PARTIAL_LINK_TEXT, "Fleet"), "the navigation")
    chrome.find_element(By.PARTIAL_LINK_TEXT, "Fleet").click()
    until(lambda: chrome.find_elements(By.TAG_NAME, "iframe"), "the page")
    chrome.switch_to.frame(chrome.find_element(By.TAG_NAME, "iframe"))

    until(lambda: "gateways: 1 of 1 expected" in text(chrome), "the gateways")

    assert "waits for an operator" in text(chrome)
    assert "reachable, 1 broker" in text(chrome)
    chrome.switch_to.default_content()


def test_a_moved_topic_is_seen_on_all_pages_without_a_reload(chrome: Chrome, airflow: AirflowApi, stack: Stack) -> None:
    create_topic(bootstrap(stack, "east"), "moved", 3)
    for partition in range(3):
        produce(bootstrap(stack, "east"), "moved", [b"a record"], partition)
    show(chrome, airflow, "migrations")
    until(lambda: "No topic has moved" in text(chrome), "an empty page")
    chrome.execute_script("window.same = true")
    conf = {"scope": ["topic:moved"], "from": "east", "to": "west", "reason": "INC-7", "dry_run": False}
    airflow.trigger("switch", "a-move", conf)
    until(lambda: airflow.states("switch", "a-move").get("report") in ("success", "failed"), "the run", 180)
    assert airflow.states("switch", "a-move")["cut_over"] == "success"

    until(lambda: "1 Migrated" in text(chrome), lambda: text(chrome))

    assert chrome.execute_script("return window.same") is True  # no reload
    bar = chrome.find_element(By.CSS_SELECTOR, "main svg")
    assert bar.get_attribute("aria-label") == "3 of 3 partitions have reached their cuts"
    chrome.find_element(By.LINK_TEXT, "moved").click()
    assert "east [0, 1) → 0 │ west [1, …)" in text(chrome)
    chrome.find_element(By.LINK_TEXT, "Its history").click()
    assert "INC-7" in text(chrome)
    chrome.find_element(By.CSS_SELECTOR, "main a").click()
    audit = text(chrome)
    assert all(f"\n{number} " in f"\n{audit}" for number in range(1, 11))  # ten questions, ten answers
    assert "by admin" in audit or "admin" in audit


def test_the_page_of_a_run_has_a_tab_with_its_whole_outcome(chrome: Chrome, airflow: AirflowApi) -> None:
    conf = {"scope": ["topic:moved"], "from": "west", "to": "east", "reason": "INC-8"}
    airflow.trigger("switch", "a-dry+run", conf)
    until(lambda: airflow.states("switch", "a-dry+run").get("report") in ("success", "failed"), "the run", 180)
    chrome.get(f"{airflow.url}/dags/switch/runs/{quote('a-dry+run')}")
    until(lambda: chrome.find_elements(By.LINK_TEXT, "Outcome"), "the tab")

    chrome.find_element(By.LINK_TEXT, "Outcome").click()

    until(lambda: chrome.find_elements(By.TAG_NAME, "iframe"), "the page")
    chrome.switch_to.frame(chrome.find_element(By.TAG_NAME, "iframe"))
    until(lambda: "DRY RUN: would move 1 topic from west to east" in text(chrome), lambda: text(chrome))
    lines = text(chrome).splitlines()
    assert re.match(r"Asked for by admin at [0-9: -]+ UTC: INC-8", lines[1])
    assert "expected fence: " in text(chrome)
    assert lines[-1] == "Next: Trigger ▸ Trigger again with this config, untick Dry run"
    assert chrome.find_element(By.TAG_NAME, "main").value_of_css_property("font-family") != "serif"  # has its style
    chrome.switch_to.default_content()


def test_a_search_in_the_history_is_answered_and_a_bad_time_is_named(chrome: Chrome, airflow: AirflowApi) -> None:
    show(chrome, airflow, "history?topic=no-such-topic")
    assert "switch-" not in text(chrome)
    show(chrome, airflow, "history")
    chrome.find_element(By.NAME, "since").send_keys("yesterday")
    chrome.find_element(By.CSS_SELECTOR, "form.filter button").click()
    assert "'yesterday' is no time" in text(chrome)


def rows(chrome: Chrome) -> int:
    """Rows of a long table, those that are not shown too."""
    more = re.search(r"and ([0-9,]+) more rows", text(chrome))
    return MAX_ROWS + int(more[1].replace(",", "")) if more else 0


def an_idle_client(port: int, client_id: str) -> socket.socket:
    """A connection that has asked for metadata of no topic (METADATA, version 1)."""
    name = client_id.encode()
    request = struct.pack(">hhih", 3, 1, 1, len(name)) + name + struct.pack(">i", 0)
    opened = socket.create_connection(("127.0.0.1", port), timeout=30)
    opened.sendall(struct.pack(">i", len(request)) + request)
    opened.recv(4)
    return opened


def test_ten_thousand_topics_and_a_thousand_clients_are_painted_within_a_second(
    chrome: Chrome, airflow: AirflowApi, stack: Stack
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
    names = [f"many-{number:05}" for number in range(TOPICS)]
    for at in range(0, TOPICS, 1_000):
        made = admin.create_topics([NewTopic(name, 1) for name in names[at : at + 1_000]], request_timeout=120)
        for one in made.values():
            one.result(120)
    port = int(stack.gateways[0]["bootstrap"].rpartition(":")[2])
    with ExitStack() as open_clients:
        for number in range(CLIENTS):
            open_clients.enter_context(an_idle_client(port, f"client-{number:04}"))
        for path, count in (("topics", TOPICS), ("clients", CLIENTS)):
            show(chrome, airflow, path)
            until(lambda count=count: rows(chrome) >= count, lambda: text(chrome)[-300:], 300)  # type: ignore[misc]
        painted = {}
        for path in TABS:
            show(chrome, airflow, path)
            until(lambda: chrome.execute_script(PAINTS), f"a paint of {path}")
            (painted[path],) = chrome.execute_script(PAINTS)
            assert len(chrome.page_source) < MAX_ANSWER_BYTES, path
        print(json.dumps(painted))
        assert max(painted.values()) < FIRST_PAINT_MS
        show(chrome, airflow, "topics?q=many-09999")
        assert text(chrome).count("many-09999") >= 1
        assert "1 of 10,0" in text(chrome)
        show(chrome, airflow, "clients?client_id=client-0999")
        assert "client-0999" in text(chrome)


def test_a_dead_cluster_is_on_the_open_page_with_the_form_that_fails_it_over(
    chrome: Chrome, airflow: AirflowApi, stack: Stack, environment: object
) -> None:
    store = environment.store  # type: ignore[attr-defined]
    mirror = Mirror.of("moved", "east", "west", "link-1", "2026-11-23T10:00:00Z", "test")
    store.commit(StateChange(change_id="a-link", puts=(mirror,), expected={(Mirror, mirror.key): None}))
    show(chrome, airflow, "fleet")
    chrome.execute_script("window.same = true")
    stack.kill("cluster/east/1")

    until(lambda: "cluster east: cluster-away" in text(chrome), "the dead cluster", 120)

    assert chrome.execute_script("return window.same") is True
    show(chrome, airflow, "mirrors")
    assert "cluster east: cluster-away" in text(chrome)  # a banner
    chrome.find_element(By.PARTIAL_LINK_TEXT, "Fail over the cluster").click()
    assert chrome.find_element(By.NAME, "cluster").get_attribute("value") == "east"
    chrome.find_element(By.NAME, "reason").send_keys("INC-8")
    chrome.find_element(By.CSS_SELECTOR, "form.start button").click()
    until(lambda: "/dags/fail_over_cluster/runs/" in chrome.current_url, "the run", 60)
    time.sleep(1)  # the script of the page has gone; the run is Airflow's
