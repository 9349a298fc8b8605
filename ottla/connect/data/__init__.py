"""Connect's data model: schemas, structs, and the records that connectors, transforms and converters exchange."""
