"""The features that this broker has finalized, by Kafka's names. They come with the software, so none can be changed.

`transaction.version` 2 lets clients use transactions v2 (KIP-890); `group.version`, `share.version` and
`streams.version` 1 tell tools that there are the groups of KIP-848, KIP-932 and KIP-1071.
"""

FEATURES = {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
