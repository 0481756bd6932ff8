"""Ring 2, the store: synchronous SQLite. Nothing else speaks SQL."""
