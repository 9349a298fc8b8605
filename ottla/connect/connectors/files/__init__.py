"""Topics as files on S3, HDFS or a local disk, by the settings and names of Confluent's S3 sink."""
