"""From a script to statements. No Spark, no broker."""
