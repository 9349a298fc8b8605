"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12."""

from ottla.registry.schemas.json_schema.schema import JsonSchema, parse_json_schema

__all__ = ["JsonSchema", "parse_json_schema"]
