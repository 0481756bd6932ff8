"""The log, one line an event. The server shares it: the pool may import nothing of the server."""
