"""Dead letters: newest first by reason, selected, corrected, and sent back exactly as planned."""

from __future__ import annotations

from collections.abc import Callable

from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of


def letter(broker: Broker, letters: str, source: str, number: int, reason: str) -> None:
    headers = [
        ("own", b"kept"),
        ("ottla.dead.letter.topic", source.encode()),
        ("ottla.dead.letter.partition", b"0"),
        ("ottla.dead.letter.offset", str(number).encode()),
        ("ottla.dead.letter.reason", reason.encode()),
    ]
    broker.produce(letters, b"value %d" % number, key=b"k", headers=headers)


def test_dead_letters_are_sent_back_once(broker: Broker, visitor: Visitor, names: Callable[[], str]) -> None:
    source, letters = names(), names()
    for each in (source, letters):
        broker.create_topic(each)
    for number, reason in enumerate(("not JSON", "no schema", "not JSON")):
        headers = [
            ("own", b"kept"),
            ("ottla.dead.letter.topic", source.encode()),
            ("ottla.dead.letter.partition", b"0"),
            ("ottla.dead.letter.offset", str(number).encode()),
            ("ottla.dead.letter.reason", reason.encode()),
        ]
        broker.produce(letters, b"value %d" % number, key=b"k", headers=headers)
    where = f"topics/{letters}/dead-letters"
    assert (visitor.json(where)["total"], visitor.json(where, reason="json")["total"]) == (3, 2)
    plan = visitor.send(visitor.form(visitor.get(where, reason="json"), "/replay"))
    assert "2 messages more" in plan.text
    done = visitor.send(visitor.form(plan, "/replay"))
    assert "2 messages were sent back." in done.text
    returned = visitor.json(f"topics/{source}/messages", **{"from": "oldest"})["messages"]
    assert [each["value"] for each in returned] == ["value 0", "value 2"]
    assert returned[0]["headers"] == [["own", "kept"]]
    assert [each["replayed"] for each in visitor.json(where)["letters"]] == [True, False, True]
    plan = visitor.submit(where, "/replay")
    assert "1 message more" in plan.text
    assert "1 message was sent back." in visitor.send(visitor.form(plan, "/replay")).text


def test_letters_are_shown_newest_first_by_reason_and_by_page(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    source, letters = names(), names()
    for each in (source, letters):
        broker.create_topic(each)
    for number in range(30):
        letter(broker, letters, source, number, f"Bad field at {number}" if number % 3 else "Not JSON")
    where = f"topics/{letters}/dead-letters"
    data = visitor.json(where)
    assert [(each["kind"], each["letters"], each["waiting"]) for each in data["reasons"]] == [
        ("Bad field at #", 20, 20),
        ("Not JSON", 10, 10),
    ]
    assert [each["offset"] for each in data["letters"]] == list(range(29, 4, -1))
    assert data["letters"][0]["value"] == "value 29"
    assert data["letters"][0]["headers"] == [["own", "kept"]]
    assert (data["total"], data["pages"]) == (30, 2)
    assert [each["offset"] for each in visitor.json(where, page=2)["letters"]] == [4, 3, 2, 1, 0]
    assert visitor.json(where, kind="Bad field at #")["total"] == 20
    assert "value 29" in text_of(visitor.get(where))


def test_selected_letters_are_sent_back_and_no_others(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    source, letters = names(), names()
    for each in (source, letters):
        broker.create_topic(each)
    for number in range(5):
        letter(broker, letters, source, number, "why")
    where = f"topics/{letters}/dead-letters"
    data = {"csrf": visitor.token(), "letter": ["0:1", "0:3"]}
    plan = visitor.http.post(f"/clusters/local/{where}/replay", data=data)
    assert "2 messages more" in text_of(plan)
    confirmed = {**data, "confirmed": "1", "upto": "0:5"}
    visitor.http.post(f"/clusters/local/{where}/replay", data=confirmed)
    assert [each["offset"] for each in visitor.json(where)["letters"] if each["replayed"]] == [3, 1]
    bad = visitor.http.post(f"/clusters/local/{where}/replay", data={**data, "letter": "x"})
    assert bad.status_code == 400


def test_what_arrives_after_the_plan_is_not_sent(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    source, letters = names(), names()
    for each in (source, letters):
        broker.create_topic(each)
    for number in range(3):
        letter(broker, letters, source, number, "why")
    where = f"topics/{letters}/dead-letters"
    plan = visitor.send(visitor.form(visitor.get(where), "/replay"))
    assert "3 messages more" in text_of(plan)
    for number in range(3, 7):
        letter(broker, letters, source, number, "why")
    assert "3 messages were sent back." in text_of(visitor.send(visitor.form(plan, "/replay")))
    assert visitor.json(where)["waiting"] == 4


def test_a_corrected_letter_counts_as_sent_back(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    source, letters = names(), names()
    for each in (source, letters):
        broker.create_topic(each)
    for number in range(2):
        letter(broker, letters, source, number, "why")
    page = visitor.get(f"topics/{source}/produce", letters=letters, partition=0, offset=1)
    form = visitor.form(page, "/produce")
    assert form.fields["value"].strip() == "value 1"
    assert "ottla.dead.letter" not in form.fields["headers"]
    visitor.send(form, value="corrected")
    [sent] = visitor.json(f"topics/{source}/messages")["messages"]
    assert (sent["value"], sent["headers"]) == ("corrected", [["own", "kept"]])
    assert [each["replayed"] for each in visitor.json(f"topics/{letters}/dead-letters")["letters"]] == [
        True,
        False,
    ]
