"""Subjects of a request for a schema by id or guid."""

from __future__ import annotations

import uuid

from ottla.http import Request
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, context_name, context_of


def subjects_of_schema(state: State, request: Request) -> set[str]:
    if "guid" in request.params:
        try:
            md5 = uuid.UUID(request.params["guid"]).bytes
        except ValueError:
            return set()
        places = [place for found in state.guids.get(md5, ()) for place in state.places_of(*found)]
        return {subject for subject, _ in places}
    text = request.params["id"]
    if not text.isdecimal():
        return set()
    context = DEFAULT_CONTEXT
    if "context" in request.params:
        context = context_name(request.params["context"])
    elif request.query.get("subject", "").startswith(":."):
        context = context_of(request.query["subject"])
    return {subject for subject, _ in state.places_of(context, int(text))}
