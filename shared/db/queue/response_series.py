"""Series of responses.

A response can't be paused by its status: what is paused is due at ``NEVER_MS``, and its failure is forgotten, for what
waits for another try holds back its chat.
"""

from shared.db.queue.series import Series

NEVER_MS = 253_370_764_800_000  # the first instant of the year 9999

# What has begun goes on as it began: a text half of which was sent must not change.
_HAS_BEGUN = "(status = 'delivering' OR part_started IS NOT NULL OR parts <> '[]')"

_PLAN = f"""
           id, series_id, message_id, agent, channel, session_id, sender, message, content ->> '$.label', recurrence,
           timezone, misfire, ifnull(scheduled_at, ifnull(deliver_after, created_at)),
           CASE WHEN deliver_after = {NEVER_MS} THEN scheduled_at ELSE ifnull(deliver_after, created_at) END,
           CASE WHEN {_HAS_BEGUN} THEN 'running' WHEN deliver_after = {NEVER_MS} THEN 'paused' ELSE 'planned' END,
           created_at
"""

RESPONSES = Series(
    kind="response",
    ended="""
    SELECT id, recurrence, timezone, misfire, scheduled_at
      FROM responses
     WHERE recurrence IS NOT NULL AND (status = 'acked' OR status = 'dead')
     ORDER BY id
     LIMIT :limit
    """,
    give_up="""
    UPDATE responses
       SET recurrence = NULL
     WHERE id = :id AND recurrence IS NOT NULL
    RETURNING id, message_id, agent, channel, session_id
    """,
    follow=f"""
    INSERT INTO responses (message_id, channel, chat_id, platform_id, thread_id, session_id, sender, sender_id,
                           message, original_message, agent, kind, content, files, metadata, deliver_after,
                           recurrence, timezone, misfire, scheduled_at, series_id, created_at)
    SELECT :message_id, channel, chat_id, platform_id, thread_id, session_id, sender, sender_id,
           ifnull(:message, message), original_message, agent, kind,
           CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END, files, metadata,
           CASE WHEN :is_paused THEN {NEVER_MS} ELSE :due_ms END, :recurrence, :timezone, :misfire,
           :due_ms, series_id, :now
      FROM responses
     WHERE id = :id
    RETURNING id, message_id, agent, channel, session_id
    """,
    planned=f"""
    SELECT {_PLAN}
      FROM responses
     WHERE series_id = :series AND (status = 'pending' OR status = 'delivering')
     ORDER BY recurrence IS NULL, id DESC
     LIMIT 1
    """,
    every=f"""
    SELECT {_PLAN}
      FROM responses r
     WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering')
       AND id = (SELECT max(o.id)
                   FROM responses o
                  WHERE o.series_id = r.series_id AND (o.status = 'pending' OR o.status = 'delivering'))
       AND (:label IS NULL OR content ->> '$.label' = :label)
     ORDER BY series_id
     LIMIT :limit
    """,
    change=f"""
    UPDATE responses
       SET message = :message,
           content = CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END,
           recurrence = :recurrence, timezone = :timezone, misfire = :misfire, scheduled_at = :scheduled,
           retry_count = CASE WHEN deliver_after IS :due AND NOT :is_paused THEN retry_count ELSE 0 END,
           last_error = CASE WHEN deliver_after IS :due AND NOT :is_paused THEN last_error END,
           deliver_after = CASE WHEN :is_paused THEN {NEVER_MS} ELSE :due END
     WHERE id = :id AND status = 'pending' AND NOT {_HAS_BEGUN}
    """,
    call_off=f"""
    UPDATE responses
       SET status = 'dead', recurrence = NULL, last_error = :reason
     WHERE series_id = :series AND status = 'pending' AND NOT {_HAS_BEGUN}
    RETURNING id, message_id, agent, channel, session_id
    """,
    called_off="response_dead",
)
