-- What a run of a schedule said is found by its message, in the history of its agent.

CREATE INDEX agent_messages_of_tasks ON agent_messages (message_id) WHERE message_id GLOB 'task_*';
