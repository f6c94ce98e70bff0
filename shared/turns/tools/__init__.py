"""What an agent can do while its turn runs, over the same functions as the REST API. One file a family of tools."""
