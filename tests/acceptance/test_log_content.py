"""What a server at its most talkative writes down while its clients work."""

from __future__ import annotations

import gc

import pytest
import trio

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import RefusedError, sdk_seat

PATIENCE_SECONDS = 60.0
MARK = "words-of-a-task"


@pytest.mark.spec("LOG-1")
@pytest.mark.parametrize("generation", ["legacy", "2026-07-28"])
@pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning")
async def test_no_text_or_token_or_claim_stands_in_the_log_of_a_server_at_debug(tmp_path, generation) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    settings = {"ROUNDTABLE_LOG_LEVEL": "debug"}
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path, settings=settings) as serve:
            url = await serve.url()
            async with (
                sdk_seat(url, tokens["lead"], mode=generation) as lead,
                sdk_seat(url, tokens["anna"], mode=generation) as anna,
            ):
                await lead.call("create_task", title=MARK, description=MARK, acceptance_criteria=MARK)
                claim = await anna.call("claim_next")
                assert claim["task"]["title"] == MARK
                with pytest.raises(RefusedError):
                    await anna.call("claim_task", task_id=MARK)
                await anna.call("post_message", task_id=1, body=MARK)
                await anna.call("submit_result", task_id=1, result=MARK)
                await lead.call("wait_for_updates")
                await lead.client.list_tools()
            serve.process.terminate()
            assert await serve.ended(PATIENCE_SECONDS) == 0
    assert serve.count("claimed") == 1
    for text in (MARK, claim["claim_id"], *tokens.values()):
        assert text not in serve.err.text
        assert text not in serve.out.text
    gc.collect()  # the SDK's client leaves the generators of its streams to the collector, which would blame a later test
