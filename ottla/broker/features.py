"""Finalized features of this broker, by Kafka's names. They are part of the software and cannot be changed.

`transaction.version` 2 lets clients use transactions v2 (KIP-890). `group.version`, `share.version` and
`streams.version` 1 announce the groups of KIP-848, KIP-932 and KIP-1071.
"""

FEATURES = {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
