"""Tools that others bring: packages, files, programs of their own, and MCP servers."""
