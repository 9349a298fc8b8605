"""An MCP server: the console's pages as tools for AI assistants, with the same rights, masks and audit log."""
