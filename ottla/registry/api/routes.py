"""All routes in one table. Each also exists under `/contexts/{context}`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ottla import __version__
from ottla.http import Access, Parameter, Request, Response, RouteDoc, Router, json_response
from ottla.http.forwarding import Forwarder
from ottla.http.router import Handler
from ottla.registry.api.resource import CONSUMES, PRODUCES, http_error, render_error
from ottla.registry.api.schemas import Schemas
from ottla.registry.api.scoped_settings import Compatibility, Contexts, ScopedSettings
from ottla.registry.api.subjects import Subjects
from ottla.registry.errors import RegistryError
from ottla.registry.node import Node
from ottla.registry.security import Operation, Rights

_BOOLEAN = {"type": "boolean", "default": False}
_INTEGER = {"type": "integer"}
_OBJECT = {"type": "object"}

_PARAMETERS = {
    each.name: each
    for each in (
        Parameter("deleted", "Include soft-deleted entries.", _BOOLEAN),
        Parameter("deletedOnly", "List only soft-deleted entries.", _BOOLEAN),
        Parameter("permanent", "Delete soft-deleted entries permanently.", _BOOLEAN),
        Parameter("normalize", "Whether to normalize the schema first.", _BOOLEAN),
        Parameter("verbose", "Explain incompatibilities.", _BOOLEAN),
        Parameter("force", "Whether to change the mode although there are schemas.", _BOOLEAN),
        Parameter("recursive", "Whether to delete those of all subjects of the context, too.", _BOOLEAN),
        Parameter("findTags", "Which tags to look for in the schema; `*` is all."),
        Parameter("referenceFormat", "`qualified`: the subjects of references with their context."),
        Parameter("defaultToGlobal", "Return the effective value if none is set.", _BOOLEAN),
        Parameter("latestOnly", "Whether to list only the latest version of each subject.", _BOOLEAN),
        Parameter("fetchMaxId", "Whether to answer the highest id too.", _BOOLEAN),
        Parameter("format", "Another format: `resolved` (Avro, JSON), `serialized` (Protobuf)."),
        Parameter("subject", "The subject whose context is meant."),
        Parameter("subjectPrefix", "Only subjects that begin so; `:*:` is every context."),
        Parameter("contextPrefix", "Only contexts that begin so."),
        Parameter("ruleType", "Only schemas with a rule of this type."),
        Parameter("key", "A property of the metadata; may be repeated."),
        Parameter("value", "Its value; may be repeated."),
        Parameter("offset", "Number of entries to skip.", _INTEGER),
        Parameter("limit", "Maximum number of entries.", _INTEGER),
    )
}


def build_router(node: Node, forwarder: Forwarder, rights: Rights) -> Router:
    router = Router(render_error, consumes=CONSUMES, produces=PRODUCES)
    subjects, schemas = Subjects(node, forwarder, rights), Schemas(node, forwarder, rights)
    settings, compatibility = ScopedSettings(node, forwarder, rights), Compatibility(node, forwarder, rights)
    contexts = Contexts(node, forwarder, rights)

    def add(
        method: str,
        pattern: str,
        handler: Handler,
        operation: Operation | None,
        summary: str,
        parameters: str = "",
        *,
        has_body: bool = False,
        in_contexts: bool = True,
        access: Access = Access.USER,
    ) -> None:
        doc = RouteDoc(
            summary,
            tags=(pattern.split("/")[1] or "root",),
            parameters=tuple(_PARAMETERS[name] for name in parameters.split()),
            request=_OBJECT if has_body else None,
            errors={500: "The store, the leader or the way to it failed (50001 to 50004)."},
        )
        guarded = _guarded(handler, operation, rights)
        router.add(method, pattern, guarded, access=access, doc=doc)
        if in_contexts:
            router.add(method, "/contexts/{context}" + pattern, guarded, access=access, doc=doc)

    O = Operation  # noqa: E741
    # fmt: off
    add("GET", "/", contexts.root, None, "Nothing: the registry answers.", in_contexts=False)
    add("POST", "/", contexts.root, None, "Nothing: the registry answers.", in_contexts=False)

    add("GET", "/subjects", subjects.list_subjects, O.GLOBAL_SUBJECTS_READ, "List subjects.", "subjectPrefix deleted deletedOnly offset limit")
    add("POST", "/subjects/{subject}", subjects.look_up, O.SUBJECT_READ, "Look up a schema under a subject.", "normalize deleted format referenceFormat findTags", has_body=True)
    add("DELETE", "/subjects/{subject}", subjects.delete_subject, O.SUBJECT_DELETE, "Delete a subject.", "permanent")
    add("GET", "/subjects/{subject}/metadata", subjects.get_by_metadata, O.SUBJECT_READ, "The latest version with given metadata.", "key value deleted format referenceFormat findTags")
    add("GET", "/subjects/{subject}/versions", subjects.list_versions, O.SUBJECT_READ, "List versions.", "deleted deletedOnly offset limit")
    add("POST", "/subjects/{subject}/versions", subjects.register, O.SUBJECT_WRITE, "Register a schema.", "normalize", has_body=True)
    add("GET", "/subjects/{subject}/versions/{version}", subjects.get_version, O.SUBJECT_READ, "A version.", "deleted format referenceFormat findTags")
    add("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version, O.SUBJECT_DELETE, "Delete a version.", "permanent")
    add("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_schema, O.SUBJECT_READ, "The schema of a version.", "deleted format referenceFormat findTags")
    add("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referenced_by, O.SUBJECT_READ, "Ids of schemas that refer to a version.", "offset limit")
    add("POST", "/subjects/{subject}/versions/{version}/tags", subjects.tag, O.SUBJECT_WRITE, "A new version with other tags.", has_body=True)

    add("GET", "/schemas", schemas.list_schemas, O.GLOBAL_SUBJECTS_READ, "List schemas.", "subjectPrefix deleted latestOnly ruleType offset limit")
    add("GET", "/schemas/types", schemas.list_types, None, "List types of schemas.")
    add("GET", "/schemas/ids/{id}", schemas.get_by_id, O.SCHEMA_READ, "A schema by its id.", "subject format referenceFormat findTags fetchMaxId")
    add("GET", "/schemas/ids/{id}/schema", schemas.get_text_by_id, O.SCHEMA_READ, "The text of a schema by its id.", "subject format")
    add("GET", "/schemas/ids/{id}/subjects", schemas.list_subjects_of, O.SCHEMA_READ, "Subjects that have the schema.", "subject deleted offset limit")
    add("GET", "/schemas/ids/{id}/versions", schemas.list_versions_of, O.SCHEMA_READ, "Versions that have the schema.", "subject deleted offset limit")
    add("GET", "/schemas/guids/{guid}", schemas.get_by_guid, O.SCHEMA_READ, "A schema by its guid.", "format")
    add("GET", "/schemas/guids/{guid}/ids", schemas.list_ids_of_guid, O.SCHEMA_READ, "Contexts and ids of a guid.")

    add("POST", "/compatibility/subjects/{subject}/versions", compatibility.with_all, O.SUBJECT_WRITE, "Check a schema against a subject.", "verbose normalize", has_body=True)
    add("POST", "/compatibility/subjects/{subject}/versions/{version}", compatibility.with_version, O.SUBJECT_WRITE, "Check a schema against a version.", "verbose normalize", has_body=True)

    add("GET", "/config", settings.get_config, O.GLOBAL_COMPATIBILITY_READ, "The config of all subjects.", "defaultToGlobal")
    add("PUT", "/config", settings.put_config, O.GLOBAL_COMPATIBILITY_WRITE, "Change it.", has_body=True)
    add("DELETE", "/config", settings.delete_config, O.GLOBAL_COMPATIBILITY_WRITE, "Go back to the default.")
    add("GET", "/config/{subject}", settings.get_config, O.SUBJECT_COMPATIBILITY_READ, "The config of a subject.", "defaultToGlobal")
    add("PUT", "/config/{subject}", settings.put_config, O.SUBJECT_COMPATIBILITY_WRITE, "Change it.", has_body=True)
    add("DELETE", "/config/{subject}", settings.delete_config, O.SUBJECT_COMPATIBILITY_WRITE, "Delete it.")

    add("GET", "/mode", settings.get_mode, O.GLOBAL_READ, "The mode of all subjects.", "defaultToGlobal")
    add("PUT", "/mode", settings.put_mode, O.GLOBAL_WRITE, "Change it.", "force", has_body=True)
    add("DELETE", "/mode", settings.delete_mode, O.GLOBAL_WRITE, "Go back to the default.", "recursive")
    add("GET", "/mode/{subject}", settings.get_mode, O.SUBJECT_READ, "The mode of a subject.", "defaultToGlobal")
    add("PUT", "/mode/{subject}", settings.put_mode, O.SUBJECT_WRITE, "Change it.", "force", has_body=True)
    add("DELETE", "/mode/{subject}", settings.delete_mode, O.SUBJECT_WRITE, "Delete it.", "recursive")

    add("GET", "/contexts", contexts.list_contexts, O.GLOBAL_SUBJECTS_READ, "List contexts.", "contextPrefix offset limit", in_contexts=False)
    add("DELETE", "/contexts/{context}", contexts.delete_context, O.GLOBAL_WRITE, "Delete an empty context.", in_contexts=False)
    add("GET", "/v1/metadata/id", contexts.get_cluster_id, None, "Which registry this is.", in_contexts=False)
    add("GET", "/v1/metadata/version", contexts.get_version, None, "The version of the server.", in_contexts=False)
    add("GET", "/v1/metadata/deployment", contexts.get_deployment, None, "Attributes of the deployment.", in_contexts=False)
    # fmt: on

    document = router.openapi("Schema registry", __version__)

    def openapi(_request: Request) -> Response:
        return json_response(document)

    router.add("GET", "/openapi.json", openapi, access=Access.USER, produces=("application/json",))
    return router


def _guarded(handler: Handler, operation: Operation | None, rights: Rights) -> Handler:
    """Convert registry errors to responses, and check rights first, if any are configured."""

    async def finish(waiting: Awaitable[Response]) -> Response:
        try:
            return await waiting
        except RegistryError as error:
            raise http_error(error) from None

    def answered(request: Request) -> Response | Awaitable[Response]:
        try:
            if operation is not None and rights.are_limited:
                rights.check(request, operation)
            result: Any = handler(request)
        except RegistryError as error:
            raise http_error(error) from None
        return result if isinstance(result, Response) else finish(result)

    return answered
