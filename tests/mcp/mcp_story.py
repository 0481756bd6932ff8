"""A day at the table, in which every tool is called and every kind of answer is given."""

from __future__ import annotations

from mcp_table import Table

STRANGE = 'a"b\\c\td\ne\u2028f\u2029g é 中文 😀 \u202e <b>'
"""Text with all that has to be escaped, and much that has not."""


async def tell(table: Table) -> None:
    """Play it. The table keeps the answers."""
    lead, anna, bert = table.lead, table.anna, table.bert
    for seat in (lead, anna, bert):
        await seat.call("whoami")
        await seat.call("list_agents")
        await seat.call("list_tasks")
        await seat.call("get_history")
        await seat.call("wait_for_updates")
    await anna.call("claim_next")
    first = await table.task(STRANGE, acceptance_criteria=STRANGE, required_skill="python", priority=3)
    second = await table.task("Second", assignee="bert", depends_on=[first])
    third = await table.task("Third", required_skill="cobol")
    await anna.did("claim_next")
    await anna.call("claim_task", task_id=first)
    await bert.call("claim_task", task_id=first)
    await bert.call("claim_task", task_id=second)
    await bert.call("claim_task", task_id=third)
    await anna.did("post_message", task_id=first, body=STRANGE, kind="progress")
    await anna.did("post_message", task_id=first, body="Which way?", kind="help_request")
    await anna.did("renew_claim", task_id=first)
    await bert.call("renew_claim", task_id=first)
    await lead.did("list_tasks", needs_attention=True)
    await lead.did("post_message", task_id=first, body="That way.", kind="reply")
    await anna.did("submit_result", task_id=first, result=STRANGE)
    await anna.call("submit_result", task_id=first, result="another")
    await lead.did("review_task", task_id=first, verdict="reject", note=STRANGE, keep_assignee=True)
    await anna.did("claim_next")
    await anna.did("release_task", task_id=first, reason=STRANGE, failed=True, cooldown_seconds=60)
    await anna.did("claim_next")
    await anna.did("claim_task", task_id=first)
    await lead.did("release_task", task_id=first, reason="Give it back.")
    await anna.call("submit_result", task_id=first, result="too late")
    await anna.did("claim_task", task_id=first)
    await anna.did("submit_result", task_id=first, result="x" * 400)
    await lead.did("review_task", task_id=first, verdict="accept", note="Good.")
    await bert.did("claim_next")
    for seat in (lead, anna, bert):
        await seat.did("whoami")
        await seat.did("list_agents")
        await seat.did("wait_for_updates")
        await seat.did("list_tasks", limit=1)
        await seat.did("list_tasks", status="open")
        await seat.did("list_tasks", assignee="bert", required_skill="cobol", needs_attention=False)
        for task_id in (first, second, third):
            await seat.did("get_task", task_id=task_id)
        await seat.did("get_history", newest_first=True, limit=5)
        await seat.did("get_history", limit=100)
        await seat.did("get_history", task_id=first, agent="anna")
    await lead.did("update_task", task_id=second, title="Second, again", priority=-5)
    await lead.call("update_task", task_id=second, assignee="anna")
    await lead.did("cancel_task", task_id=second, reason=STRANGE)
    await bert.call("submit_result", task_id=second, result="for nothing")
    for tool in ("whoami", "claim_next", "create_task", "get_task", "renew_claim"):
        await anna.call(tool, {"nonsense": 1})
        await lead.call(tool, {"nonsense": 1})
    table.claim_ids.fault = RuntimeError("a fault")
    await table.lead.did("create_task", title="Fourth", description="d")
    await anna.call("claim_next")
    table.board.close_claims()
    await anna.call("claim_task", task_id=4)
    await anna.call("claim_next")
