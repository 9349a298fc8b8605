"""Kafka's command-line tools under their own names: same options, same output, same exit codes.

One module per tool; the installed commands are `kafka-topics`, `kafka-topics.sh`, …. What they do is in
`ottla.cli.jobs`, shared with the `ottla` command.
"""
