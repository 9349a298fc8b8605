"""What a broker counts, and how it shows it to Prometheus."""
