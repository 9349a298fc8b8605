"""Code shared by Avro and Protobuf: parts of the compiled loops, and their memory."""
