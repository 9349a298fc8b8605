"""SASL: how both sides of a connection prove who they are. One module per mechanism, with both sides."""
