"""Leaders and followers: who is in sync, what is committed, fetching, truncation, throttles."""
