"""What outlives a worker or the program: records, and the ledger of calls and claims on disk."""
