"""What Avro and Protobuf share: parts of compiled loops, and the memory around them."""
