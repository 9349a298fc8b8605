"""`ottla connect`"""
