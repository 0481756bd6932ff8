"""One call of a model: what it is asked, the bounded request, and what its answer means."""
