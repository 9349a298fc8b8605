from __future__ import annotations

from ottla.http import Access, Parameter, Request, Response, RouteDoc, Router


async def handler(request: Request) -> Response:
    return Response()


def test_the_document_has_every_route() -> None:
    router = Router(consumes=("application/json",))
    router.add(
        "POST",
        "/subjects/{subject}/versions",
        handler,
        access=Access.ANYONE,
        doc=RouteDoc(
            "Register a schema",
            parameters=(Parameter("normalize", schema={"type": "boolean"}), Parameter("subject", "Its name")),
            request={"$ref": "#/components/schemas/Schema"},
            response={"type": "object"},
            errors={409: "Incompatible"},
        ),
    )
    router.add("GET", "/subjects", handler, access=Access.ANYONE)
    made = router.openapi("Registry", "1", schemas={"Schema": {"type": "object"}})
    operation = made["paths"]["/subjects/{subject}/versions"]["post"]
    assert [(each["name"], each["in"], each["required"]) for each in operation["parameters"]] == [
        ("subject", "path", True),
        ("normalize", "query", False),
    ]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("Schema")
    assert operation["responses"]["409"] == {"description": "Incompatible"}
    assert made["paths"]["/subjects"]["get"]["operationId"] == "getSubjects"
    assert "Schema" in made["components"]["schemas"]
