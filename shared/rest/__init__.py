"""What ``api`` answers, by subject: each module is a table of endpoints."""
