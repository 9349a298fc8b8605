"""Interceptors in Flume's sense, as transforms: small changes to every record.

Configs use their short names as types: `transforms.x.type=AddHost`.
"""
