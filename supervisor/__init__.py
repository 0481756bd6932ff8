"""The worker pool: models that have an API but no app, put to work on a Roundtable board.

Over the wire a worker is an MCP client like any other, and nothing here imports
the server. The modules, from pure to running:

    limits, failures, urls, text       numbers, classes of failure, the URL rule, what counts as text
    prompt, completion, retry_after    what a model is sent, what its answer means, how long it asks to wait
    policy, restart, record            what follows from a failure; when a worker may call; what it remembers
    roster, keys, settings             what the owner wrote
    model_client, board, board_client  one model call; the tools of the board
    lease, persistence                 a claim kept while the model works; a call that has to be made
    worker, task_run                   one worker's loop; one claimed task
    pool                               all workers, each restarted alone, stopped in two phases
"""
