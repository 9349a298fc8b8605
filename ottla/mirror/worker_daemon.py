"""Spark daemon that forks the Python workers of a mirror: one reads a range, another copies it."""

from __future__ import annotations

from ottla.spark.workers import serve

if __name__ == "__main__":
    serve(("ottla.mirror.ranges_source", "ottla.mirror.flow", "ottla.mirror.link.copy"))
