"""Series of responses."""

from shared.db.engine.columns import assigned, bound, listed
from shared.db.queue.schedules.series import Series
from shared.db.queue.schedules.settings import IS_LATE, OF_RESPONSES

# A response that has begun does not change any more: a part of it may have been sent.
_HAS_BEGUN = "(status = 'delivering' OR part_started IS NOT NULL OR parts <> '[]')"

_NAMES = OF_RESPONSES
_SETTINGS = listed(_NAMES)

_PLAN = f"""
           id, series_id, message_id, agent, channel, session_id, sender, message, content ->> '$.label', recurrence,
           timezone, ifnull(scheduled_at, ifnull(deliver_after, created_at)),
           ifnull(deliver_after, created_at),
           CASE WHEN {_HAS_BEGUN} THEN 'running' WHEN status = 'paused' THEN 'paused' ELSE 'planned' END, created_at,
           chat_id, {_SETTINGS}
"""

RESPONSES = Series(
    kind="response",
    id_prefix="proactive",
    ended=f"""
    SELECT id, recurrence, timezone, scheduled_at, {_SETTINGS}
      FROM responses
     WHERE recurrence IS NOT NULL AND (status = 'acked' OR status = 'dead')
     ORDER BY id
     LIMIT :limit
    """,
    give_up="""
    UPDATE responses
       SET recurrence = NULL
     WHERE id = :id AND recurrence IS NOT NULL
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    follow=f"""
    INSERT INTO responses (message_id, channel, chat_id, platform_id, thread_id, session_id, sender, sender_id,
                           message, original_message, agent, kind, content, files, metadata, status, deliver_after,
                           recurrence, timezone, scheduled_at, series_id, {_SETTINGS}, created_at)
    SELECT :message_id, channel, chat_id, platform_id, thread_id, session_id, sender, sender_id,
           ifnull(:message, message), original_message, agent, kind,
           CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END, files, metadata,
           CASE WHEN :is_paused THEN 'paused' ELSE 'pending' END, :due_ms, :recurrence, :timezone, :due_ms,
           series_id, {bound(_NAMES)}, :now
      FROM responses
     WHERE id = :id
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    planned=f"""
    SELECT {_PLAN}
      FROM responses
     WHERE series_id = :series AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
     ORDER BY recurrence IS NULL, id DESC
     LIMIT 1
    """,
    every=f"""
    SELECT {_PLAN}
      FROM responses r
     WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
       AND id = (SELECT max(o.id)
                   FROM responses o
                  WHERE o.series_id = r.series_id
                    AND (o.status = 'pending' OR o.status = 'delivering' OR o.status = 'paused'))
       AND (:label IS NULL OR content ->> '$.label' = :label)
     ORDER BY series_id
     LIMIT :limit
    """,
    change=f"""
    UPDATE responses
       SET message = :message,
           content = CASE WHEN :label IS NULL THEN content ELSE json_set(content, '$.label', :label) END,
           recurrence = :recurrence, timezone = :timezone, scheduled_at = :scheduled,
           {assigned(_NAMES)},
           retry_count = CASE WHEN deliver_after IS :due THEN retry_count ELSE 0 END,
           last_error = CASE WHEN deliver_after IS :due THEN last_error END,
           failure = CASE WHEN deliver_after IS :due THEN failure END,
           unsent_since = CASE WHEN deliver_after IS :due THEN unsent_since END,
           deliver_after = :due, status = CASE WHEN :is_paused THEN 'paused' ELSE 'pending' END
     WHERE id = :id AND (status = 'pending' OR status = 'paused') AND NOT {_HAS_BEGUN}
    """,
    call_off=f"""
    UPDATE responses
       SET status = 'dead', recurrence = NULL, last_error = :reason, failure = 'called_off'
     WHERE series_id = :series AND (status = 'pending' OR status = 'paused') AND NOT {_HAS_BEGUN}
    RETURNING id, message_id, agent, channel, session_id, series_id
    """,
    called_off="response_dead",
    late=f"""
    SELECT {_PLAN}
      FROM responses
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' AND {IS_LATE.format(table="responses")}
    """,
    settings=_NAMES,
)
