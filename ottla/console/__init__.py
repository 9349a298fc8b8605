"""Web console that shows and changes a Kafka cluster. As an ordinary client it works with any Kafka.

web/        from a request to a page: routes, rights, forms, templates
access/     identity and rights: logins, roles, sessions, the audit log
cluster/    state of a cluster: one snapshot in memory, rates, lag over time
messages/   reading, decoding, searching, exporting and sending messages
pages/      one module per subject with its handlers
"""
