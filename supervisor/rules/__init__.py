"""Pure: bounds, classes of failure, what follows from one, when to start again."""
