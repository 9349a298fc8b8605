from tests.connect.connectors.mariadb import mariadb, mariadb_server
from tests.connect.connectors.postgres import postgres, postgres_server

__all__ = ["mariadb", "mariadb_server", "postgres", "postgres_server"]
