-- name: deeds
-- What was done in tasks, task by task; a fork's events from another task are not its own.
SELECT e.task, e.seq, t.agent, e.at, e.type, e.data, e.refs
FROM event AS e
JOIN task AS t ON t.key = e.task
WHERE (e.task, e.seq) > (%(task)s, %(seq)s) AND e.token > 0 AND t.updated_at >= %(since)s
    AND e.type IN (
        'model.requested', 'model.replied', 'model.failed', 'model.retried', 'context.compacted',
        'tool.started', 'tool.failed'
    )
ORDER BY e.task, e.seq
LIMIT %(limit)s;
