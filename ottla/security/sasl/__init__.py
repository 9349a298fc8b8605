"""SASL authentication: one module per mechanism, with client and server side."""
