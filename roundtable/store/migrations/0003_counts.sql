-- How many tasks there are of each status, so that nobody has to count them.

CREATE TABLE task_counts (
    status TEXT PRIMARY KEY,
    tasks  INTEGER NOT NULL CHECK (tasks >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO task_counts (status, tasks)
    VALUES ('open', 0), ('claimed', 0), ('submitted', 0), ('done', 0), ('cancelled', 0);
UPDATE task_counts SET tasks = (SELECT count(*) FROM tasks WHERE tasks.status = task_counts.status);

CREATE TRIGGER count_of_new_task AFTER INSERT ON tasks BEGIN
    UPDATE task_counts SET tasks = tasks + 1 WHERE status = NEW.status;
END;
CREATE TRIGGER count_of_moved_task AFTER UPDATE OF status ON tasks WHEN NEW.status <> OLD.status BEGIN
    UPDATE task_counts SET tasks = tasks - 1 WHERE status = OLD.status;
    UPDATE task_counts SET tasks = tasks + 1 WHERE status = NEW.status;
END;
CREATE TRIGGER count_of_deleted_task AFTER DELETE ON tasks BEGIN
    UPDATE task_counts SET tasks = tasks - 1 WHERE status = OLD.status;
END;
