"""Interceptors in Flume's sense: small things that happen to every record, as transforms.

Their short names are their types in a config: `transforms.x.type=AddHost`.
"""
