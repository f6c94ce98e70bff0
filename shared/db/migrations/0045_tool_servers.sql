-- Tool servers (MCP) that the operator allows, and the agents that have them.

CREATE TABLE tool_servers (
    name       TEXT PRIMARY KEY,
    command    TEXT NOT NULL CHECK (json_type(command) = 'array'),      -- its words; it runs on the agent's leash
    tools      TEXT NOT NULL CHECK (json_type(tools) = 'object'),       -- by name: what each is for; no others are called
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_tool_servers (
    agent      TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    server     TEXT NOT NULL REFERENCES tool_servers (name) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent, server)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_tool_servers_of_server ON agent_tool_servers (server);
