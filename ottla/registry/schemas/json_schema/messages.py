"""Messages for each kind of incompatible change, with Confluent's names of the kinds."""

from __future__ import annotations

from ottla.registry.schemas.parsed import Incompatibility

# Kinds permitted by the policy LENIENT.
LENIENT = frozenset((
    "ADDITIONAL_PROPERTIES_NARROWED",
    "ADDITIONAL_PROPERTIES_REMOVED",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
))  # fmt: skip

_ADDED_TO_OPEN = (
    "The {reader} schema has an open content model and has a property or item at path '{path}' which is missing in "
    "the {writer} schema"
)
_REMOVED_FROM_CLOSED = (
    "The {reader} schema has a closed content model and is missing a property or item present at path '{path}' in "
    "the {writer} schema"
)
_REMOVED_NOT_COVERED = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} schema and is "
    "not covered by its partially open content model"
)
_ADDED_NOT_COVERED = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} schema and is not "
    "covered by its partially open content model"
)
_TYPE = "A type at path '{path}' is different between the {reader} schema and the {writer} schema"

_SPECIAL = {
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _ADDED_TO_OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The {reader} schema has an unopen content model and has a "
    "required property at path '{path}' which is missing in the {writer} schema",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _REMOVED_FROM_CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _REMOVED_FROM_CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_NOT_COVERED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_NOT_COVERED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_NOT_COVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_NOT_COVERED,
    "TYPE_CHANGED": _TYPE,
    "TYPE_NARROWED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "ENUM_ARRAY_CHANGED": _TYPE,
    "TOO_COMPLEX": "The {reader} and the {writer} schema are too complex to be compared",
}
_BY_ENDING = (
    ("_ADDED", "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"),
    ("_REMOVED", "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"),
    (
        "_INCREASED",
        "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema",
    ),
    (
        "_EXPANDED",
        "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema",
    ),
    (
        "_DECREASED",
        "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema",
    ),
    ("_CHANGED", "The value at path '{path}' is different between the {reader} and {writer} schema"),
    (
        "_NARROWED",
        "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} schema",
    ),
    (
        "_EXTENDED",
        "An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} schema",
    ),
)


def incompatibility(type_: str, path: str) -> Incompatibility:
    template = _SPECIAL.get(type_) or next(text for ending, text in _BY_ENDING if type_.endswith(ending))
    return Incompatibility(type_, path, template.replace("{path}", path))
