"""Messages: reading, decoding, masking, searching, exporting, sending."""
