"""The HTTP edge: connections, the doors in front of the tools, and the way back out."""
