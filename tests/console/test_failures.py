"""Failures stay inside the frame, and a refused form keeps its input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.console.web.refill import refill
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("topics/nowhere/partitions", 404, "nowhere"),
        ("groups/nobody/lag", 404, "Group 'nobody' does not exist."),
        ("brokers/99/settings", 404, "99"),
        ("connectors", 404, "This cluster has no Connect"),
        ("topics/nowhere/messages/export", 404, "nowhere"),
    ],
)
def test_a_page_that_fails_has_the_menu_around_it(
    visitor: Visitor, path: str, status: int, sentence: str
) -> None:
    page = visitor.get(path)
    assert page.status_code == status
    assert sentence in text_of(page)
    assert 'aria-label="Cluster"' in page.text
    assert visitor.http.get("/clusters/local/topics").status_code == 200


def test_a_server_that_is_away_is_told_inside_the_frame(open_console: Callable[..., InBackground]) -> None:
    console = open_console(cluster={"connect": "http://127.0.0.1:1"})
    with Visitor(console.url) as visitor:
        page = visitor.get("connectors")
        assert page.status_code == 502
        assert "cannot be reached" in text_of(page)
        assert 'aria-label="Cluster"' in page.text


def test_a_cluster_that_never_answered_is_told_inside_the_frame() -> None:
    clusters = (ClusterSettings("local", {"bootstrap.servers": "127.0.0.1:1"}),)
    settings = ConsoleSettings(clusters, port=0)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
        page = visitor.get("overview")
        assert page.status_code == 502
        assert 'aria-label="Cluster"' in page.text


def test_json_of_a_failure_stays_json(visitor: Visitor) -> None:
    answer = visitor.get("topics/nowhere/partitions.json")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")


@pytest.fixture(scope="module")
def kept_topic(broker: Broker) -> None:
    broker.create_topic("kept")


@pytest.mark.parametrize(
    ("page", "action", "typed", "kept"),
    [
        ("new-topic", "/new-topic", {"name": "bad name", "partitions": "7"}, ["bad name", "7"]),
        ("topics/kept/produce", "/produce", {"value": "a <b>text", "headers": "none"}, ["a &lt;b&gt;text", "none"]),
        ("new-schema", "/new-schema", {"subject": "s", "schema": '{"type": "reco'}, ["{&#34;type&#34;: &#34;reco"]),
        ("users", "/users/set", {"user": "ann-lee", "mechanism": "none", "password": "secret-typed"}, ["ann-lee"]),
        ("quotas", "/quotas/set", {"user": "ann-lee", "value": "many"}, ["ann-lee", "many"]),
    ],
)  # fmt: skip
def test_a_refused_form_is_shown_again_as_it_was_filled_in(
    kept_topic: None, visitor: Visitor, page: str, action: str, typed: dict[str, str], kept: list[str]
) -> None:
    refused = visitor.submit(page, action, **typed)
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    assert 'aria-label="Cluster"' in refused.text
    again = visitor.form(refused, action)
    for value in kept:
        assert value in refused.text
    assert "secret-typed" not in refused.text
    assert again.fields["csrf"]


def test_a_refused_confirmation_shows_the_plan_again(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("precious")
    plan = visitor.submit("topics/precious/partitions", "/topics/precious/delete")
    refused = visitor.send(visitor.form(plan, "/delete"), typed="precios")
    assert refused.status_code == 400
    assert "Nothing was changed: 'precious' has to be typed" in text_of(refused)
    done = visitor.send(visitor.form(refused, "/delete"), typed="precious")
    assert done.status_code == 200
    assert "precious" not in [row["name"] for row in visitor.json("topics")["topics"]]


def test_a_page_of_another_site_is_never_shown_for_its_form(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("lonely")
    data = {"csrf": visitor.token(), "name": "no.such.setting"}
    headers = {"Referer": "http://evil.example/clusters/local/acls"}
    refused = visitor.http.post("/clusters/local/topics/lonely/settings", data=data, headers=headers)
    assert refused.status_code == 400
    assert "<h1>This cannot be done</h1>" in refused.text


# -- filling in --

PAGE = """<form method="post" action="/a?x=1"><input type="hidden" name="h" value="1"><input name="t" value="old">
<textarea name="area">before &lt;</textarea><select name="s">
<option value="1" selected>1</option><option value="2">2</option></select>
<input type="checkbox" name="c" value="on" checked>
<input type="radio" name="r" value="x" checked><input type="radio" name="r" value="y">
<input type="password" name="p"></form><form method="post" action="/b"><input name="t" value="other"></form>"""


def test_each_kind_of_control_takes_what_was_typed() -> None:
    fields = [
        ("h", "2"),
        ("t", 'a "quoted" <b>'),
        ("area", "</textarea><script>"),
        ("s", "2"),
        ("r", "y"),
        ("p", "secret"),
    ]
    page = refill(PAGE, "/a", fields)
    assert '<input name="t" value="a &quot;quoted&quot; &lt;b&gt;">' in page
    assert "&lt;/textarea&gt;&lt;script&gt;</textarea>" in page
    assert '<option value="1">1</option><option value="2" selected>' in page
    assert '<input type="checkbox" name="c" value="on">' in page
    assert '<input type="radio" name="r" value="y" checked>' in page
    assert '<input type="radio" name="r" value="x">' in page
    assert '<input type="hidden" name="h" value="1">' in page
    assert "secret" not in page
    assert '<input name="t" value="other">' in page


def test_among_equal_forms_the_one_that_was_sent_is_filled() -> None:
    head = '<form method="post" action="/a"><input type="hidden" name="n" '
    form = head + 'value="{0}"><input name="v" value="{1}"></form>'
    page = refill(form.format("one", 1) + form.format("two", 2), "/a", [("n", "two"), ("v", "new")])
    assert page == form.format("one", 1) + form.format("two", "new")
    assert refill("<p>no form</p>", "/a", [("x", "y")]) == "<p>no form</p>"
