"""The worker pool: models that have an API but no app, put to work on a Roundtable board.

Over the wire a worker is an MCP client like any other, and nothing here imports the server. From pure to running:

    rules        bounds, classes of failure, what follows from one, when to start again
    config       what the owner wrote: roster, settings, keys, addresses
    memory       what outlives a worker or the program: records, and the ledger of calls and claims on disk
    model        one call of a model: what it is asked, the bounded request, what its answer means
    board        the tools of the board, typed, and calls that have to be made
    work         what a worker does: come by a task, keep its claim, call the model, hand in or give back
    nursery      each child supervised alone, and stopped in two phases
    pool         all workers of a roster
    log, status  the log, which the server shares, and the socket at which a running program says how it stands
    local_model  a real small model on this machine
"""
