"""A real small model on this machine: weights by package name, llama.cpp's server as a child process."""
