"""Kafka's command-line tools under their own names: same options, same output, same exit codes.

One module per tool, or per family of tools that differ little; the installed commands are `kafka-topics`,
`kafka-topics.sh`, …. What they do is in `ottla.client.admin` and `ottla.cli.jobs`, shared with the `ottla` command.
"""
