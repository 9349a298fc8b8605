"""Pages in the browser that show a Kafka cluster and change it. A client over the wire: any Kafka will do.

web/        from a request to a page: routes, rights, forms, templates
access/     who somebody is and what they may do: logins, roles, sessions, the audit log
cluster/    what is known of a cluster: one snapshot in memory, rates, lag over time
messages/   reading, decoding, searching, exporting and sending messages
pages/      one module per subject: its handlers
"""
