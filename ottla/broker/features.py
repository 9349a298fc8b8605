"""The features that this broker has finalized, by Kafka's names. They come with the software, so none can be changed.

`transaction.version` 2 lets clients use transactions v2 (KIP-890), `group.version` and `share.version` 1 tell tools
that there are the groups of KIP-848 and KIP-932.
"""

FEATURES = {"group.version": 1, "share.version": 1, "transaction.version": 2}
