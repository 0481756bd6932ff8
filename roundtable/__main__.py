"""`python -m roundtable` is `roundtable serve`."""

import sys

from roundtable.cli.main import main

main(["serve", *sys.argv[1:]])
