"""What all tests share: generated cases are the same in every run.

`pytest --hypothesis-profile=explore` looks for new ones instead.
"""

from __future__ import annotations

from hypothesis import settings

# no deadline: a slow machine is not a fault of the code
settings.register_profile("same", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("explore", max_examples=1_000, deadline=None, print_blob=True)
settings.load_profile("same")
