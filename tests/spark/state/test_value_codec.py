"""The value format of the state: exact types, no code, and one sentence for damage."""

from __future__ import annotations

import datetime
import pickle
from collections import Counter, deque
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

pytest.importorskip("msgspec")

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.state.value_codec import BadValue, decode, encode, encode_key

zones = st.sampled_from([None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 80), 1 << 80),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(timezones=zones),
    st.timedeltas(),
)
hashable = scalars | st.lists(scalars, max_size=3).map(tuple) | st.frozensets(scalars, max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(hashable, max_size=3),
        st.dictionaries(hashable, inner, max_size=3),
        st.dictionaries(st.text(), inner, max_size=3),
        st.lists(inner, max_size=3).map(deque),
    ),
    max_leaves=12,
)
#: One value of each kind, in both encodings.
SAMPLES: list[Any] = [
    (("user", None), (5, (1.5, "é")), 1_700_000_000_000, None, None),
    (("user", Decimal("1.50")), [{"A": 1}, ("k", b"\x80")], {(1, True): frozenset({2})}),
    Counter({"a": 2}),
    deque([1, 2], 3),
]


def types_of(value: Any) -> Any:
    """Return the value with the exact type of each part, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return type(value), [(types_of(name), types_of(each)) for name, each in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), value
    if isinstance(value, (list, tuple, deque)):
        return type(value), [types_of(each) for each in value]
    return type(value), repr(value)


@given(values)
def test_a_value_comes_back_with_the_same_types(value: Any) -> None:
    found = decode(encode(value))
    assert found == value
    if not isinstance(value, (set, frozenset)):
        assert types_of(found) == types_of(value)


def test_floats_that_equal_nothing_or_other_floats_come_back() -> None:
    assert repr(decode(encode((float("nan"), -0.0, float("inf"), 5.0, 5)))) == "(nan, -0.0, inf, 5.0, 5)"


def test_counters_and_bounded_queues_stay_what_they_are() -> None:
    assert types_of(decode(encode(Counter({"a": 2})))) == types_of(Counter({"a": 2}))
    assert decode(encode(deque([1, 2, 3], 3))).maxlen == 3


def test_a_number_of_numpy_becomes_a_number_of_python() -> None:
    np = pytest.importorskip("numpy")
    found = decode(encode((np.float64(1.5), np.int64(3), np.bool_(True))))
    assert types_of(found) == types_of((1.5, 3, True))


@given(st.lists(hashable, max_size=4).map(tuple), st.lists(hashable, max_size=4).map(tuple))
def test_keys_are_equal_for_equal_values_only_and_no_key_begins_with_another(one: Any, other: Any) -> None:
    assert encode_key(one) == encode_key(pickle.loads(pickle.dumps(one)))
    if one != other:
        assert not encode_key(one).startswith(encode_key(other))


class Named(NamedTuple):
    number: int


@pytest.mark.parametrize("value", [object(), Named(1), (1, [len]), {"a": Exception("x")}])
def test_an_object_that_is_no_data_is_refused_by_the_name_of_its_class(value: Any) -> None:
    with pytest.raises(BadValue, match=r"a value of type \S+ cannot be stored. Use numbers, texts"):
        encode(value)


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadValue, match="nested too deeply"):
        encode(endless)


def test_a_value_of_a_newer_version_says_so() -> None:
    with pytest.raises(BadValue, match="format 2 of a newer version of Ottla"):
        decode(b"\x20" + encode(1)[1:])


def test_a_pickle_is_not_a_value() -> None:
    with pytest.raises(BadValue, match="damaged"):
        decode(pickle.dumps(1, protocol=5))


@pytest.mark.parametrize("value", SAMPLES, ids=repr)
def test_damage_gives_another_value_or_one_error_and_never_another_exception(value: Any) -> None:
    whole = encode(value)
    for cut in range(len(whole)):
        with pytest.raises(BadValue):
            decode(whole[:cut])
    refused = 0
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            decode(bytes(damaged))
        except BadValue:
            refused += 1
    assert refused
