"""Messages: read, decoded, masked, searched, exported, sent."""
