"""Series of messages."""

from shared.db.engine.columns import assigned, bound, listed
from shared.db.queue.schedules.series import Series
from shared.db.queue.schedules.settings import IS_LATE, SETTINGS

_NAMES = tuple(SETTINGS)
_SETTINGS = listed(_NAMES)

_PLAN = f"""
           id, series_id, message_id, agent, channel, session_id, sender, message, content ->> '$.label', recurrence,
           timezone, ifnull(scheduled_at, ifnull(process_after, created_at)),
           ifnull(process_after, created_at),
           CASE status WHEN 'processing' THEN 'running' WHEN 'paused' THEN 'paused' ELSE 'planned' END, created_at,
           chat_id, {_SETTINGS}
"""

MESSAGES = Series(
    kind="message",
    id_prefix="task",
    ended=f"""
    SELECT id, recurrence, timezone, scheduled_at, {_SETTINGS}
      FROM messages
     WHERE recurrence IS NOT NULL AND (status = 'completed' OR status = 'dead' OR status = 'cancelled')
     ORDER BY id
     LIMIT :limit
    """,
    give_up="""
    UPDATE messages
       SET recurrence = NULL
     WHERE id = :id AND recurrence IS NOT NULL
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    follow=f"""
    INSERT INTO messages (message_id, id_prefix, kind, channel, chat_id, platform_id, thread_id, sender, sender_id,
                          message, content, files, agent, from_agent, session_id, conversation_id, msg_type, urgency,
                          trigger, status, process_after, recurrence, timezone, scheduled_at, series_id,
                          {_SETTINGS}, created_at, updated_at)
    SELECT :message_id, 'task', kind, channel, chat_id, platform_id, thread_id, sender, sender_id,
           ifnull(:message, message),
           CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END, files, agent,
           from_agent,
           -- The session that goes on: a series is of the chat, and outlives its sessions.
           ifnull((SELECT a.id
                     FROM sessions s
                     JOIN sessions a ON a.agent = s.agent AND ifnull(a.chat_id, 0) = ifnull(s.chat_id, 0)
                      AND ifnull(a.thread_id, '') = ifnull(s.thread_id, '')
                      AND ifnull(a.private_to, '') = ifnull(s.private_to, '')
                      AND ifnull(a.series_id, '') = ifnull(s.series_id, '') AND a.status = 'active'
                    WHERE s.id = messages.session_id), session_id),
           conversation_id, msg_type, urgency,
           trigger, CASE WHEN :is_paused THEN 'paused' ELSE 'pending' END, :due_ms, :recurrence, :timezone, :due_ms,
           series_id, {bound(_NAMES)}, :now, :now
      FROM messages
     WHERE id = :id
    ON CONFLICT (message_id) DO NOTHING
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    planned=f"""
    SELECT {_PLAN}
      FROM messages
     WHERE series_id = :series AND (status = 'pending' OR status = 'processing' OR status = 'paused')
     ORDER BY recurrence IS NULL, id DESC
     LIMIT 1
    """,
    every=f"""
    SELECT {_PLAN}
      FROM messages m
     WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'processing' OR status = 'paused')
       AND id = (SELECT max(o.id)
                   FROM messages o
                  WHERE o.series_id = m.series_id
                    AND (o.status = 'pending' OR o.status = 'processing' OR o.status = 'paused'))
       AND (:label IS NULL OR content ->> '$.label' = :label)
     ORDER BY series_id
     LIMIT :limit
    """,
    change=f"""
    UPDATE messages
       SET message = :message,
           content = CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END,
           recurrence = :recurrence, timezone = :timezone, scheduled_at = :scheduled,
           {assigned(_NAMES)},
           retry_count = CASE WHEN process_after IS :due THEN retry_count ELSE 0 END,
           last_error = CASE WHEN process_after IS :due THEN last_error END,
           failure = CASE WHEN process_after IS :due THEN failure END,
           waits_since = CASE WHEN process_after IS :due THEN waits_since END,
           process_after = :due, status = CASE WHEN :is_paused THEN 'paused' ELSE 'pending' END, updated_at = :now
     WHERE id = :id AND (status = 'pending' OR status = 'paused')
    """,
    call_off="""
    UPDATE messages
       SET status = 'cancelled', recurrence = NULL, last_error = :reason, failure = NULL, updated_at = :now
     WHERE series_id = :series AND (status = 'pending' OR status = 'paused')
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    called_off="message_cancelled",
    late=f"""
    SELECT {_PLAN}
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' AND {IS_LATE.format(table="messages")}
    """,
    settings=_NAMES,
)
