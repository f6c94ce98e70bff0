"""The MCP server that ``dispatch`` serves to agents' programs: a thin front of a turn's tools."""
