"""The worker pool: models that have an API but no app, put to work on a Roundtable board.

Over the wire a worker is an MCP client like any other, and nothing here imports the server. From pure to running:

    limits, failures, urls, text, retry_after   bounds, classes of failure, which addresses and texts are taken
    prompt, completion, refusals                what a model is sent, and what its answer or its refusal means
    policy, restart, record                     what follows from a failure; what a worker remembers
    fields, roster, keys, settings              what the owner wrote
    bounded_body, model_client                  one model call, bounded in time and size
    board_transport, board_shapes, board_errors, board_client    the tools of the board
    stop, task_run, worker                      one claimed task; one worker's loop
    child, supervision, pool                    all workers, each restarted alone, stopped in two phases
    log_lines, log_traceback, logs              the log, which the server shares
    local_model                                 a real small model on this machine
"""
