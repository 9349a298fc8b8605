from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.cli.jobs.messages import ConsumedMessage, bytes_to_json, message_from_json, message_to_json
from ottla.cli.jobs.produce import LineFormat, read_messages
from ottla.client.admin.reset import clamp

data = st.none() | st.binary(max_size=30) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=10), data), max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(key=data, value=data, headers=headers, timestamp=st.integers(0, 2**40))
def test_a_message_survives_json(key, value, headers, timestamp):
    consumed = ConsumedMessage("t", 3, 17, timestamp, "CreateTime", key, value, headers)
    line = message_to_json(consumed)
    assert b"\n" not in line
    read = message_from_json(line, 1)
    assert (read.key, read.value, read.timestamp, read.partition) == (key, value, timestamp, 3)
    assert list(read.headers) == headers


def test_text_stays_readable_in_json():
    assert bytes_to_json("schön".encode()) == "schön"
    assert bytes_to_json(b"\xff") == {"base64": "/w=="}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))))
def test_lines_are_messages(lines):
    messages = read_messages([line + b"\n" for line in lines], LineFormat(partition=2))
    assert [(m.value, m.key, m.partition) for m in messages] == [(line, None, 2) for line in lines]


@given(st.integers(), st.integers(0, 1000), st.integers(0, 1000))
def test_clamped_offsets_lie_in_the_partition(wanted, start, length):
    assert start <= clamp(wanted, start, start + length) <= start + length
