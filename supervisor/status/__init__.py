"""How a running program stands, asked at a Unix socket of its own."""
