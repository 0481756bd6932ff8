"""Ring 3, the board: the one actor that changes state."""
