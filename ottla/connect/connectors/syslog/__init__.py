"""Syslog source for messages over UDP or TCP."""
