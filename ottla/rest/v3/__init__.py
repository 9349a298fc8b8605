"""Routes of v3: resources linked to each other, as in Confluent's API."""
