"""Connect and mirroring beside Apache Kafka's own."""
