"""Ring 1, the rules: pure. No I/O, no clock, no randomness, no await."""
