"""Found by PySpark, as `pyspark_ottla` is: it takes one data source from each package. This one is "ottla.table"."""

from ottla.spark.tables.table_source import TableDataSource as DefaultSource

__all__ = ["DefaultSource"]
