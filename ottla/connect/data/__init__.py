"""Connect's data: schemas, structs, and the records that connectors, transforms and converters hand on."""
