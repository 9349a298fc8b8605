"""Files that come to a directory: lines, CSV or JSON, by the settings of Jeremy Custenborder's connectors."""
