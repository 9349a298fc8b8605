"""A soak: everything at once on a secured cluster for an hour, with a fault every twenty seconds.

    python -m tests.soak --seconds 3600 --plot docs/images/soak.svg

Three brokers with TLS, logins and ACLs run beside a schema registry, a REST proxy and the console. Producers, two kinds
of groups, a transactional copier, SQL queries, connectors and a mirror run until the end. In the end every record must
be in its place once and in order, and no process may have grown in the second half.
"""
