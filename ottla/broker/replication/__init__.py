"""The leader's half of replication: fetches of followers."""
