"""What the owner's files and the environment say, parsed once at the start into frozen values."""
