"""Prints what the rides in the store cost: python examples/gettaxi/costs.py gettaxi-store"""

import sys

from pipeline import costs

from ottla.spark import session

if __name__ == "__main__":
    spark = session("costs")
    try:
        costs(spark.read.parquet(sys.argv[1])).orderBy("began", "ride").show(truncate=False)
    except Exception as error:
        sys.exit(f"The store cannot be read: {str(error).splitlines()[0]}")
    finally:
        spark.stop()
