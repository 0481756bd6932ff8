-- The words of the board, for list_tasks(query). Each text is a row of its own, so that a long talk is not indexed anew
-- with every message: what a task is about (its title and description), its result, and each of its messages.
-- A row's id is task_id * 2^32, plus message_id for a message, plus 2^32 - 1 for the result: a task's rows lie together.
-- Only the index is kept (content = ''), since the texts stand in tasks and messages; what leaves it is told as it was.

CREATE VIRTUAL TABLE words USING fts5 (
    title, body, content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);

-- Rows that are still to come into the index: they go in by the dozen, which costs a quarter of one at a time.
-- Whoever searches lets them in first.
CREATE TABLE unindexed (
    row_id INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER words_of_new_task AFTER INSERT ON tasks BEGIN
    INSERT OR IGNORE INTO unindexed VALUES (NEW.task_id << 32);
END;
CREATE TRIGGER words_of_new_result AFTER INSERT ON tasks WHEN NEW.result IS NOT NULL BEGIN
    INSERT OR IGNORE INTO unindexed VALUES ((NEW.task_id << 32) + 4294967295);
END;
CREATE TRIGGER words_of_new_message AFTER INSERT ON messages BEGIN
    INSERT OR IGNORE INTO unindexed VALUES ((NEW.task_id << 32) + NEW.message_id);
END;

CREATE TRIGGER words_of_changed_task AFTER UPDATE OF title, description ON tasks
    WHEN NEW.title <> OLD.title OR NEW.description <> OLD.description
BEGIN
    INSERT INTO words (words, rowid, title, body)
        SELECT 'delete', OLD.task_id << 32, OLD.title, OLD.description
        WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE row_id = OLD.task_id << 32);
    INSERT OR IGNORE INTO unindexed VALUES (NEW.task_id << 32);
END;
CREATE TRIGGER words_of_changed_result AFTER UPDATE OF result ON tasks WHEN NEW.result IS NOT OLD.result BEGIN
    INSERT INTO words (words, rowid, body)
        SELECT 'delete', (OLD.task_id << 32) + 4294967295, OLD.result
        WHERE OLD.result IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM unindexed WHERE row_id = (OLD.task_id << 32) + 4294967295);
    INSERT OR IGNORE INTO unindexed VALUES ((NEW.task_id << 32) + 4294967295);
END;

-- The board deletes neither task nor message; an owner's own tool may.
CREATE TRIGGER words_of_deleted_task AFTER DELETE ON tasks BEGIN
    INSERT INTO words (words, rowid, title, body)
        SELECT 'delete', OLD.task_id << 32, OLD.title, OLD.description
        WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE row_id = OLD.task_id << 32);
    INSERT INTO words (words, rowid, body)
        SELECT 'delete', (OLD.task_id << 32) + 4294967295, OLD.result
        WHERE OLD.result IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM unindexed WHERE row_id = (OLD.task_id << 32) + 4294967295);
    DELETE FROM unindexed WHERE row_id IN (OLD.task_id << 32, (OLD.task_id << 32) + 4294967295);
END;
CREATE TRIGGER words_of_deleted_message AFTER DELETE ON messages BEGIN
    INSERT INTO words (words, rowid, body)
        SELECT 'delete', (OLD.task_id << 32) + OLD.message_id, OLD.body
        WHERE NOT EXISTS (SELECT 1 FROM unindexed WHERE row_id = (OLD.task_id << 32) + OLD.message_id);
    DELETE FROM unindexed WHERE row_id = (OLD.task_id << 32) + OLD.message_id;
END;

-- What an older board has already.
INSERT INTO words (rowid, title, body) SELECT task_id << 32, title, description FROM tasks;
INSERT INTO words (rowid, body) SELECT (task_id << 32) + 4294967295, result FROM tasks WHERE result IS NOT NULL;
INSERT INTO words (rowid, body) SELECT (task_id << 32) + message_id, body FROM messages;
