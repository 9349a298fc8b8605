"""TLS without sockets: key stores, trust stores, and SSL contexts."""
