-- Sessions that belong to one schedule are closed once it is over; sweep looks for them.

CREATE INDEX sessions_of_schedules ON sessions (last_active) WHERE series_id IS NOT NULL AND status = 'active';
