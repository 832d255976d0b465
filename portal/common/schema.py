"""What the OpenAPI schema says beyond what the views say themselves: every operation may answer with a problem."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

PROBLEM_RESPONSE = {
    "description": "A problem (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_ERROR = {
    "type": "object",
    "required": ["attr", "code", "detail"],
    "properties": {
        "attr": {"type": "string", "nullable": True, "description": "The field; null: the whole request."},
        "code": {"type": "string"},
        "detail": {"type": "string"},
    },
}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": _ERROR},
        "current_version": {"type": "integer", "description": "On 409: the version that is current."},
    },
}
METHODS = {"get", "post", "put", "patch", "delete"}


def problems_add(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """drf-spectacular's hook at the end: the problem, once, and a reference to it from every operation."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    for operations in result["paths"].values():
        for method, operation in operations.items():
            if method in METHODS:
                operation["responses"]["default"] = PROBLEM_RESPONSE
    return result


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How a token is sent."""

    target_class = "portal.projects.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token, as Bearer or Token."}
