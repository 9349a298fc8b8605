"""Found by PySpark, which looks for packages of this name: `format("ottla")` works wherever Ottla is installed."""

from ottla.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
