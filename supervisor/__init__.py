"""The worker pool: models that have an API but no app, put to work on a Roundtable board.

Over the wire a worker is an MCP client like any other, and nothing here imports the server. From pure to running:

    limits, failures, urls, text       numbers, classes of failure, the URL rule, what counts as text
    prompt, completion, usage          what a model is sent, what its answer means, what it took
    refusals, retry_after              what an endpoint means by a status, and how long it asks to wait
    policy, restart, record            what follows from a failure; what a worker remembers
    roster, keys, settings             what the owner wrote
    clock, ledger, endpoint            times of day; calls and claims on disk; what is known of an endpoint
    model_client, board, board_client  one model call; the tools of the board
    lease, persistence                 a claim kept while the model works; a call that has to be made
    context, calls, claiming           what one worker works with; its model calls; how it comes by a task
    task_run, worker                   one claimed task; one worker's loop
    supervision, pool, status          each worker restarted alone; all of them; what there is to see
    log_lines, log_traceback, logs     the log, which the server shares
    status_path, status_socket, status_client   the socket at which a running program says how it stands
    local_model                        a real small model on this machine
"""
