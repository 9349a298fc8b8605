"""Responses to requests that fail as a whole, like Kafka's `getErrorResponse` for each request class.

The error fills every error field of the response: the top level, and one entry per requested item, because clients look
up their items. Clients of some APIs read only the top-level error. The mapping of requests to responses follows from
the message declarations. API modules with other responses define their own `error_response`.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any

from ottla.protocol.codec import Request, Response, Struct
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages import response_type

# Lists in responses, mapped to their request counterparts if named differently.
_ANSWERS: dict[str, tuple[str, ...]] = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partition_indexes",),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topics", "topic_data", "topic_names", "resources"),
    "results": ("topics", "resources", "creations", "groups_names", "users", "feature_updates"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
# Fields that identify an entry in both request and response. A plain name or number maps to the first of them.
_IDENTITIES = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "index",
    "partition",
    "partition_index",
    "partition_id",
    "group_id",
    "member_id",
    "group_instance_id",
    "transactional_id",
    "producer_id",
    "resource_type",
    "resource_name",
    "key",
    "user",
    "feature",
    "entity",
)
_OTHERWISE_NAMED = {"partition_index": "partition", "user": "name"}
_ERROR_CODES = ("error_code", "partition_error_code")
# Values for unknown fields that differ from the message default.
_UNKNOWN: dict[str, Any] = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "metadata": "",
    "node_id": -1,
    "port": -1,
    "records": b"",
}


# APIs with only a top-level error in Kafka.
_TOP_ONLY = frozenset(
    {
        13,  # LeaveGroup
        47,  # OffsetDelete
        57,  # UpdateFeatures
        78,  # ShareFetch
        79,  # ShareAcknowledge
        91,  # AlterShareGroupOffsets
        92,  # DeleteShareGroupOffsets
    }
)

Asked = Struct | str | int

# Entries between two yields.
_SLICE = 64


def error_response(request: Request, error: KafkaError) -> Response:
    response = response_type(request.api_key)()
    _fill(response, None if request.api_key in _TOP_ONLY else request, error)
    return response


def error_response_in_slices(request: Request, error: KafkaError) -> Generator[None, None, Response]:
    """Like `error_response` for a large request, yielding in between."""
    response = response_type(request.api_key)()
    if request.api_key in _TOP_ONLY:
        _fill(response, None, error)
    else:
        yield from _fill_in_slices(response, request, error)
    return response


def _fill_in_slices(answer: Struct, asked: Struct, error: KafkaError) -> Generator[None, None, None]:
    _fill(answer, None, error)
    for name, of in _entries_of(type(answer)):
        entries: list[Struct] = []
        setattr(answer, name, entries)
        for each in _answered(asked, name):
            if isinstance(each, Struct) and any(
                len(_answered(each, inner)) > _SLICE for inner, _ in _entries_of(of)
            ):
                entry = _identified(of, each)
                yield from _fill_in_slices(entry, each, error)
            else:
                entry = _entry(of, each, error)
            entries.append(entry)
            if not len(entries) % _SLICE:
                yield


@cache
def _entries_of(of: type[Struct]) -> list[tuple[str, type[Struct]]]:
    return [
        (name, field.struct)
        for name, field in of.fields.items()
        if field.kind == "array" and field.struct is not None and _has_error_code(field.struct)
    ]


def _fill(answer: Struct, asked: Asked | None, error: KafkaError) -> None:
    """Set the error, with one entry per requested item if `asked` is given."""
    for name, field in type(answer).fields.items():
        if name in _ERROR_CODES:
            setattr(answer, name, int(error.code))
        elif name == "error_message":
            setattr(answer, name, error.message)
        elif name in _UNKNOWN:
            setattr(answer, name, _UNKNOWN[name])
        elif (
            asked is not None
            and field.kind == "array"
            and field.struct is not None
            and _has_error_code(field.struct)
        ):
            setattr(answer, name, [_entry(field.struct, each, error) for each in _answered(asked, name)])


def _answered(asked: Asked, name: str) -> list[Asked]:
    """Return the request's entries for the named list of the response."""
    for source in (name, *_ANSWERS.get(name, ())):
        listed = getattr(asked, source, None)
        if isinstance(listed, list) and listed:
            return listed
    return []


def _entry(of: type[Struct], asked: Asked, error: KafkaError) -> Struct:
    entry = _identified(of, asked)
    _fill(entry, asked, error)
    return entry


def _identified(of: type[Struct], asked: Asked) -> Struct:
    """Return a response entry with the identifying fields of a request entry."""
    entry = of()
    identities = [name for name in of.fields if name in _IDENTITIES]
    if isinstance(asked, Struct):
        known = type(asked).fields
        for name in identities:
            source = name if name in known else _OTHERWISE_NAMED.get(name)
            if source in known:
                setattr(entry, name, getattr(asked, source))
    else:
        setattr(entry, identities[0], asked)
    return entry


@cache
def _has_error_code(of: type[Struct]) -> bool:
    return any(
        name in _ERROR_CODES or (field.struct is not None and _has_error_code(field.struct))
        for name, field in of.fields.items()
    )
