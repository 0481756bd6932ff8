"""What the owner wrote: the roster, and the environment's settings, keys and addresses."""
