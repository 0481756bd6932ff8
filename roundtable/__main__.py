"""`python -m roundtable` is `roundtable serve`."""

from roundtable.cli.main import main

main(["serve"])
