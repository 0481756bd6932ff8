"""The command line: the one place that knows all the parts and puts them together."""
