"""Client metrics (KIP-714): subscriptions and forwarding."""
