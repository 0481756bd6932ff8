-- The board. Times are UTC text (RFC 3339, milliseconds, Z) for whoever reads the file;
-- columns ending in _ms count milliseconds on the board's own clock.

CREATE TABLE board (
    only      INTEGER PRIMARY KEY CHECK (only = 1),
    board_id  TEXT NOT NULL,               -- marks cursors, so that one from another board is known as such
    probes    INTEGER NOT NULL DEFAULT 0   -- written to see whether a broken disk has come back
) STRICT;

CREATE TABLE tasks (
    task_id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again
    title               TEXT NOT NULL,
    description         TEXT NOT NULL,
    acceptance_criteria TEXT,
    required_skill      TEXT,
    priority            INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    rank                INTEGER NOT NULL,                   -- place in line, lowest first
    assigned_to         TEXT,
    assignee            TEXT,
    status              TEXT NOT NULL CHECK (status IN ('open', 'claimed', 'submitted', 'done', 'cancelled')),
    attempt             INTEGER NOT NULL CHECK (attempt >= 0),
    failures            INTEGER NOT NULL CHECK (failures >= 0),
    rejections          INTEGER NOT NULL CHECK (rejections >= 0),
    max_attempts        INTEGER NOT NULL CHECK (max_attempts >= 1),
    lease_seconds       INTEGER CHECK (lease_seconds BETWEEN 30 AND 86400),
    needs_attention     TEXT,                               -- the gravest of its rows in attention
    open_dependencies   INTEGER NOT NULL DEFAULT 0 CHECK (open_dependencies >= 0),
    result              TEXT,
    claim_id            TEXT,
    revision            INTEGER NOT NULL DEFAULT 0,         -- updates by the leader
    claimed_at          TEXT,
    created_at          TEXT NOT NULL,
    updated_at          TEXT NOT NULL,
    CHECK ((status = 'claimed') = (claim_id IS NOT NULL)),
    CHECK ((status = 'claimed') = (claimed_at IS NOT NULL)),
    CHECK (status <> 'open' OR assignee IS NULL),
    CHECK (status NOT IN ('claimed', 'submitted', 'done') OR assignee IS NOT NULL)
) STRICT;

-- What claim_next walks: the tasks that can be claimed now, best first.
CREATE INDEX tasks_ready_free ON tasks (required_skill, rank, task_id)
    WHERE status = 'open' AND needs_attention IS NULL AND open_dependencies = 0 AND assigned_to IS NULL;
CREATE INDEX tasks_ready_assigned ON tasks (assigned_to, rank, task_id)
    WHERE status = 'open' AND needs_attention IS NULL AND open_dependencies = 0 AND assigned_to IS NOT NULL;
-- What list_tasks walks, newest first.
CREATE INDEX tasks_by_status ON tasks (status, required_skill, task_id);
CREATE INDEX tasks_by_status_newest ON tasks (status, task_id);
CREATE INDEX tasks_by_skill ON tasks (required_skill, task_id) WHERE required_skill IS NOT NULL;
CREATE INDEX tasks_by_assignee ON tasks (assignee, status, task_id) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_by_assigned_to ON tasks (assigned_to, task_id) WHERE status = 'open' AND assigned_to IS NOT NULL;
CREATE INDEX tasks_by_attention ON tasks (task_id) WHERE needs_attention IS NOT NULL;

CREATE TABLE dependencies (
    task_id    INTEGER NOT NULL REFERENCES tasks,
    depends_on INTEGER NOT NULL REFERENCES tasks,
    position   INTEGER NOT NULL,           -- the leader's order
    PRIMARY KEY (task_id, depends_on),
    CHECK (task_id <> depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_cause ON dependencies (depends_on, task_id);

CREATE TABLE attention (
    task_id INTEGER NOT NULL REFERENCES tasks,
    reason  TEXT NOT NULL CHECK (reason IN ('attempts_exhausted', 'rejected_repeatedly', 'dependency_cancelled',
                                            'assignee_gone', 'help_requested')),
    since   TEXT NOT NULL,
    PRIMARY KEY (task_id, reason)
) STRICT, WITHOUT ROWID;

-- Every claim ever made. A claim is a lease: lease_until_ms is its end, where it has one.
CREATE TABLE claims (
    claim_id       TEXT PRIMARY KEY,
    task_id        INTEGER NOT NULL REFERENCES tasks,
    agent          TEXT NOT NULL,
    attempt        INTEGER NOT NULL,
    claimed_at     TEXT NOT NULL,
    lease_seconds  INTEGER NOT NULL,       -- its whole length: at a start no more than this can remain
    lease_until_ms INTEGER NOT NULL,
    revision_seen  INTEGER NOT NULL,       -- the task's revision that its holder has read
    superseded     INTEGER NOT NULL DEFAULT 0 CHECK (superseded IN (0, 1)), -- the leader has updated the task since
    ended_at       TEXT,
    ended_by       TEXT,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL)),
    UNIQUE (task_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_held ON claims (agent, task_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX claims_one_holder ON claims (task_id) WHERE ended_at IS NULL;
CREATE INDEX claims_by_task ON claims (task_id, agent);
CREATE INDEX claims_by_lease ON claims (lease_until_ms) WHERE ended_at IS NULL;

-- After a failure claim_next passes over the task for this worker until then.
CREATE TABLE cooldowns (
    agent    TEXT NOT NULL,
    task_id  INTEGER NOT NULL REFERENCES tasks,
    until_ms INTEGER NOT NULL,
    seconds  INTEGER NOT NULL,             -- its whole length: at a start no more than this can remain
    PRIMARY KEY (agent, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX cooldowns_by_end ON cooldowns (until_ms);
CREATE INDEX cooldowns_by_task ON cooldowns (task_id);

CREATE TABLE messages (
    message_id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id    INTEGER NOT NULL REFERENCES tasks,
    agent      TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('leader', 'worker')),
    kind       TEXT NOT NULL CHECK (kind IN ('progress', 'help_request', 'reply', 'note', 'late_result')),
    body       TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX messages_by_task ON messages (task_id, message_id);

CREATE TABLE reviews (
    review_id  INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id    INTEGER NOT NULL REFERENCES tasks,
    verdict    TEXT NOT NULL CHECK (verdict IN ('accept', 'reject')),
    note       TEXT,
    agent      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,           -- the claim that brought it
    result     TEXT NOT NULL,              -- the text that was judged
    created_at TEXT NOT NULL,
    CHECK (verdict = 'accept' OR note IS NOT NULL)
) STRICT;
CREATE INDEX reviews_by_task ON reviews (task_id, review_id);

CREATE TABLE history (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    time     TEXT NOT NULL,
    task_id  INTEGER REFERENCES tasks,
    agent    TEXT NOT NULL,
    event    TEXT NOT NULL,
    changes  TEXT NOT NULL CHECK (json_valid(changes))  -- {field: [old, new]}
) STRICT;
CREATE INDEX history_by_task ON history (task_id, event_id);
CREATE INDEX history_by_agent ON history (agent, event_id);

-- Whom an event concerns: 'leader', or 'worker:' and the name.
CREATE TABLE recipients (
    recipient TEXT NOT NULL,
    event_id  INTEGER NOT NULL REFERENCES history,
    PRIMARY KEY (recipient, event_id)
) STRICT, WITHOUT ROWID;

-- The first answer of a call with a key, to be given again.
CREATE TABLE idempotency (
    agent      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    key        TEXT NOT NULL,
    arguments  TEXT NOT NULL,              -- SHA-256 of what was asked
    answer     TEXT NOT NULL CHECK (json_valid(answer)),
    created_at TEXT NOT NULL,
    PRIMARY KEY (agent, tool, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE audit_log (
    audit_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    time            TEXT NOT NULL,         -- arrival
    agent           TEXT NOT NULL,
    tool            TEXT NOT NULL,
    task_id         INTEGER,
    outcome         TEXT NOT NULL,         -- ok, gone, or the error's code
    duration_ms     INTEGER NOT NULL,      -- to the decision
    empty_waits     INTEGER NOT NULL DEFAULT 0,
    previous_sha256 TEXT NOT NULL          -- over the row before it; of nothing for the first
) STRICT;
CREATE INDEX audit_log_by_agent ON audit_log (agent, audit_id);

-- Waits that ended empty and stand in no row yet, kept over a stop for the next row of their agent.
CREATE TABLE empty_waits (
    agent TEXT PRIMARY KEY,
    waits INTEGER NOT NULL CHECK (waits > 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER history_is_append_only_1 BEFORE UPDATE ON history
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER history_is_append_only_2 BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER audit_log_is_append_only_1 BEFORE UPDATE ON audit_log
    BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END;
CREATE TRIGGER audit_log_is_append_only_2 BEFORE DELETE ON audit_log
    BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END;
CREATE TRIGGER messages_are_append_only BEFORE UPDATE ON messages
    BEGIN SELECT RAISE(ABORT, 'nobody edits a message'); END;
-- INSERT OR REPLACE deletes without asking a DELETE trigger.
CREATE TRIGGER history_is_append_only_3 BEFORE INSERT ON history
    WHEN EXISTS (SELECT 1 FROM history WHERE event_id = NEW.event_id)
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER audit_log_is_append_only_3 BEFORE INSERT ON audit_log
    WHEN EXISTS (SELECT 1 FROM audit_log WHERE audit_id = NEW.audit_id)
    BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END;
CREATE TRIGGER messages_are_append_only_2 BEFORE INSERT ON messages
    WHEN EXISTS (SELECT 1 FROM messages WHERE message_id = NEW.message_id)
    BEGIN SELECT RAISE(ABORT, 'nobody edits a message'); END;
