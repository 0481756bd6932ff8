"""What the board costs: `python -m benchmarks [NAMES] [--quick]`. Nothing of the product imports this."""
