"""Children under supervision: each restarted alone, stopped in two phases, and no fault of one touching another."""
