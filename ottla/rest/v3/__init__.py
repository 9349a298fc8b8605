"""The routes of v3: resources with links to each other, as Confluent's API has them."""
