"""Spark's daemon that forks the Python workers of a mirror: one reads a range, another copies it."""

from __future__ import annotations

from ottla.spark.workers import serve

if __name__ == "__main__":
    serve(("ottla.spark.mirror.ranges_source", "ottla.spark.mirror.flow", "ottla.spark.mirror.link.copy"))
