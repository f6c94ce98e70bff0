-- Dead answers without those that need nobody: a client may leave very many unfetched.

CREATE INDEX responses_unsent ON responses (id)
 WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off');
