"""The console in a browser: every page, every action with its effect on the cluster, keyboard, narrow screens, axe."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.connect.worker.workers import SOURCE, Worker, standalone_properties
from tests.console.browsing import write
from tests.console.test_platform import FIRST, SECOND, FakeSql

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium"),
]

PAGES = (
    "overview", "alerts", "topics", "topics?internal=1", "new-topic", "topics/orders/messages",
    "topics/orders/partitions",
    "topics/orders/settings", "topics/orders/groups", "topics/orders/produce", "topics/orders/dead-letters",
    "topics/orders/messages?mode=sql&q=amount+%3E+80", "topics/orders/messages?mode=sql&q=SELECT",
    "topics/orders/messages?q=Ann", "topics/orders/messages?live=1", "topics/letters/dead-letters",
    "groups", "groups/readers/lag", "groups/readers/reset",
    "transactions?hanging=1", "heatmap", "reassignments?topic=orders", "acls", "users", "quotas", "tokens", "changes",
    "schemas", "schemas/orders-value/versions", "new-schema", "connectors", "connectors/lines/state",
    "connectors/lines/edit", "new-connector", "sql", "flow", "flow?around=topic:orders", "count-audit", "capacity",
    "capacity?measure=1&seconds=1", "brokers/0/settings", "topics/nowhere/partitions",
)  # fmt: skip


@pytest.fixture(scope="module")
def sql() -> Iterator[FakeSql]:
    made: list[FakeSql] = []

    def make() -> FakeSql:
        made.append(FakeSql())
        return made[0]

    with InBackground(make, "sql"):
        yield made[0]


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("connect")
    with Worker(standalone_properties(broker.bootstrap_servers, folder / "offsets")) as running:
        running.wait_until_ready()
        (folder / "lines.txt").write_text("one\n")
        config = {"connector.class": SOURCE, "topic": "orders", "file": str(folder / "lines.txt")}
        running.call("PUT", "/connectors/lines/config", config)
        yield running


@pytest.fixture(scope="module")
def console(
    broker: Broker, open_console: Callable[..., InBackground], worker: Worker, sql: FakeSql
) -> InBackground:
    for topic, count in (("orders", 3), ("letters", 1)):
        broker.create_topic(topic, count)
    names = ("Ann", "Bo", "Carol")
    write(broker, "orders", [b'{"customer": "%s", "amount": %d}' % (names[n % 3].encode(), n) for n in range(90)],
          partition=0, key=b"k")  # fmt: skip
    broker.produce(
        "letters",
        b"bad",
        headers=[("ottla.dead.letter.topic", b"orders"), ("ottla.dead.letter.reason", b"why")],
    )
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
    consumer.close()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments-1"})
    producer.init_transactions(30)
    with SchemaRegistry(
        RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    ) as registry:
        for text in (FIRST, SECOND):
            registry.register("orders-value", Schema(text))
    return open_console(cluster={"connect": worker.url, "sql": sql.urls[0]})


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, console: InBackground) -> Iterator[Callable[..., Any]]:
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_one(**options: Any) -> Any:
        options.setdefault("viewport", {"width": 1200, "height": 800})
        context = chromium.new_context(base_url=f"{console.url}/clusters/local/", **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def hear(message: Any) -> None:
            # The browser also reports missing pages.
            if message.type == "error" and "Failed to load resource" not in message.text:
                complaints.append(message.text)

        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


# -- every page --


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_any_page(open_page: Callable[..., Any], scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for path in PAGES:
        page.goto(path)
        result = Axe().run(page)
        bad = [
            f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0].get('failureSummary', '')[:300]}"
            for each in result.response["violations"]
        ]
        if bad:
            found[path] = bad
    assert found == {}


def test_every_page_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = open_page(viewport={"width": 375, "height": 700})
    too_wide = {}
    for path in PAGES:
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 375:
            too_wide[path] = width
    assert too_wide == {}


def test_the_theme_is_the_systems_until_one_chooses(open_page: Callable[..., Any]) -> None:
    page = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    page.goto("overview")
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme").click()
    light = page.evaluate(background)
    assert dark != light
    page.goto("topics")
    assert page.evaluate(background) == light
    assert open_page(color_scheme="light").goto("overview").ok


def test_pages_renew_themselves(broker: Broker, page: Any) -> None:
    page.goto("topics/orders/partitions")
    figure = page.locator(".figures dd").first
    before = int(figure.inner_text())
    write(broker, "orders", [b"x"] * 5, partition=1)
    page.wait_for_function(
        "n => Number(document.querySelector('.figures dd').innerText) >= n", arg=before + 5, timeout=20_000
    )


def test_a_list_filters_while_one_types(page: Any) -> None:
    page.goto("topics")
    assert page.get_by_role("link", name="orders", exact=True).is_visible()
    page.get_by_label("Filter").fill("let")
    page.get_by_role("link", name="orders", exact=True).wait_for(state="detached")
    assert page.get_by_role("link", name="letters").is_visible()
    assert page.url.endswith("?q=let")


# -- actions --


def test_a_topic_is_made_and_deleted_by_keyboard_alone(page: Any, admin: AdminClient) -> None:
    page.goto("topics")
    page.get_by_role("link", name="Create topic").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/new-topic")
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Create topic by-keyboard").wait_for()
    assert "by-keyboard" not in admin.list_topics(timeout=20).topics
    page.get_by_role("button", name="Create topic").focus()
    page.keyboard.press("Enter")
    page.get_by_text("was created").wait_for()
    assert len(admin.list_topics(timeout=20).topics["by-keyboard"].partitions) == 4
    page.get_by_role("button", name="Delete topic").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Type by-keyboard to confirm").focus()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.get_by_text("was deleted").wait_for()
    assert "by-keyboard" not in admin.list_topics(timeout=20).topics


def test_tab_reaches_everything_in_order_and_shows_where_one_is(page: Any) -> None:
    page.goto("topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("(document.activeElement.innerText || document.activeElement.name || '').trim()")
        )
    assert "Topics" in seen
    assert "q" in seen
    assert any(each == "orders" for each in seen)


def test_a_message_is_produced_found_and_sent_again(broker: Broker, page: Any) -> None:
    page.goto("topics/orders/messages")
    page.get_by_role("link", name="Produce message").click()
    page.get_by_label("Key", exact=True).fill("from-the-browser")
    page.get_by_label("Value", exact=True).fill('{"customer": "Žofie"}')
    page.get_by_label("Partition").select_option("2")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("Sent to partition 2").wait_for()
    assert last(broker, "orders", 2) == (b"from-the-browser", '{"customer": "Žofie"}'.encode())
    page.goto("topics/orders/messages")
    page.get_by_label("Search").fill("žofie")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("1 found.").wait_for()
    row = page.locator("tbody#rows tr")
    assert row.count() == 1
    row.locator("summary").click()
    page.get_by_label("Topic to send it to").fill("letters")
    page.get_by_role("button", name="Send again").click()
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("Sent to partition 0").wait_for()
    assert last(broker, "letters", 0)[0] == b"from-the-browser"


def test_messages_are_found_by_an_sql_condition_by_keyboard_alone(page: Any) -> None:
    page.goto("topics/orders/messages?partition=0")
    page.get_by_label("Search").focus()
    page.keyboard.type("value->amount >= 88 AND customer IN ('Bo', 'Carol')")
    page.keyboard.press("Tab")
    page.keyboard.type("SQL")  # chooses the first match
    page.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    page.get_by_text("2 found.").wait_for()
    rows = page.locator("tbody#rows tr")
    assert rows.count() == 2
    assert {"0-88", "0-89"} == {rows.nth(number).get_attribute("data-offset") for number in range(2)}
    page.get_by_role("searchbox", name="Search").fill("value->amount >>")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("alert").get_by_text("That is no SQL condition").wait_for()


def test_the_graph_says_how_fast_it_flows(page: Any) -> None:
    page.goto("flow")
    label = page.locator("svg.graph text.edge-label", has_text="12 rows/s")
    label.first.wait_for()
    assert label.first.locator("tspan").count() == 3
    page.get_by_text("The same as a table").focus()
    page.keyboard.press("Enter")
    row = page.get_by_role("row").filter(has_text="query:CTAS_1").first
    assert row.get_by_role("cell").all_inner_texts()[2:] == ["12", "5", "0.25"]


def last(broker: Broker, topic: str, partition: int) -> tuple[bytes | None, bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "check"})
    try:
        where = TopicPartition(topic, partition)
        _, end = consumer.get_watermark_offsets(where, timeout=20)
        consumer.assign([TopicPartition(topic, partition, end - 1)])
        message = consumer.poll(20)
        assert message is not None
        return message.key(), message.value()
    finally:
        consumer.close()


def test_a_search_is_cancelled(broker: Broker, page: Any) -> None:
    write(broker, "orders", [b"a" * 3000 + b"!"] * 200, partition=1)
    page.goto("topics/orders/messages?mode=regex&q=" + "%5E(a%7Caa)%2B%24&partition=1")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Stopped.").wait_for()


def test_new_messages_arrive_live(broker: Broker, page: Any) -> None:
    page.goto("topics/orders/messages")
    page.get_by_role("link", name="Follow live").click()
    page.get_by_text("Waiting for messages…").wait_for()
    broker.produce("orders", b"just now", partition=1)
    page.get_by_text("just now").first.wait_for()


def test_a_message_is_copied(open_page: Callable[..., Any], console: InBackground) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto("topics/orders/messages?from=oldest&partition=0&limit=10")
    page.locator("tbody#rows tr summary").first.click()
    page.get_by_role("button", name="Copy value").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert '"customer": "Ann"' in page.evaluate("navigator.clipboard.readText()")


def test_a_file_is_downloaded(page: Any, tmp_path: Path) -> None:
    page.goto("topics/orders/messages?from=oldest&partition=0")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    download.value.save_as(tmp_path / "orders.csv")
    assert "Carol" in (tmp_path / "orders.csv").read_text()


def test_offsets_are_moved_with_a_preview(broker: Broker, page: Any) -> None:
    page.goto("groups/readers/lag")
    page.get_by_role("link", name="Move offsets").click()
    page.locator("select[name=kind]").select_option("offset")
    page.get_by_label("Offset, or how many messages").fill("7")
    page.get_by_role("button", name="Show preview").click()
    page.get_by_role("button", name="Move offsets").click()
    page.get_by_text("were moved").wait_for()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    assert consumer.committed([TopicPartition("orders", 0)], timeout=20)[0].offset == 7
    consumer.close()


def test_lag_is_drawn(page: Any) -> None:
    page.goto("groups/readers/lag")
    # A constant lag draws a line without height.
    page.locator("svg.chart polyline").first.wait_for(state="attached", timeout=20_000)


def test_a_connector_is_paused_and_resumed(worker: Worker, page: Any) -> None:
    page.goto("connectors/lines/state")
    page.get_by_role("button", name="Pause").click()
    worker.wait_until("lines", "PAUSED")
    page.get_by_role("button", name="Resume").click()
    worker.wait_until("lines", "RUNNING")
    page.locator(".figures").get_by_text("RUNNING").wait_for(timeout=20_000)


def test_rows_of_sql_stream_in_and_stop(sql: FakeSql, page: Any) -> None:
    page.goto("sql")
    page.get_by_label("Statement").fill("SELECT * FROM orders EMIT CHANGES;")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("more").first.wait_for()
    assert page.get_by_role("columnheader", name="A INT").is_visible()
    page.get_by_role("button", name="Stop").click()
    deadline = time.monotonic() + 20
    while sql.streams_open and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert sql.streams_open == 0


def test_scripts_in_messages_are_shown_and_not_run(broker: Broker, page: Any) -> None:
    broker.produce(
        "letters",
        b"<img src=x onerror=\"document.title='stolen'\">",
        key=b"<script>document.title='stolen'</script>",
    )
    page.goto("topics/letters/messages")
    page.locator("tbody#rows tr summary").first.click()
    page.goto("topics/letters/messages?q=onerror")
    page.get_by_text("found.").wait_for()
    assert not re.search("stolen", page.title())
    assert page.locator("tbody#rows img, tbody#rows script").count() == 0
