"""Writes topics to files on S3, HDFS or a local disk, with the settings and file names of Confluent's S3 sink."""
