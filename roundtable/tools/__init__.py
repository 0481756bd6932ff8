"""Ring 3, the tools: all that Roundtable knows of MCP. No SQL, no rules."""
