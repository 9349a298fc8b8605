"""TLS without sockets: key and trust stores, and the contexts that are made of them."""
