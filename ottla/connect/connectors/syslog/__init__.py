"""Messages of devices that speak syslog, over UDP or TCP."""
