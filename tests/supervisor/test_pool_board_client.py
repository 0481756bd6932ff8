"""The tools of the board over a real socket, with the SDK's client."""

from __future__ import annotations

import pytest
import trio
from board_endpoint import TOKEN, board_url, error, hangs_up, open_board_endpoint, tool
from pydantic import SecretStr
from scripted_endpoint import answers, open_endpoint, response

from supervisor.board.client import open_board_client
from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    BoardError,
    BoardNonsenseError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.board.protocol import BoardClient, Claim, Held, Identity, Renewal, TaskState
from supervisor.model.prompt import Brief, Dependency, Earlier
from supervisor.rules.limits import BOARD_CALL_SECONDS, BOARD_REPLY_BYTES

CLAIM = {
    "task_id": 7,
    "claim_id": "c",
    "attempt": 2,
    "task": {
        "task_id": 7,
        "title": "Write",
        "description": "a poem",
        "acceptance_criteria": "rhymes",
        "status": "claimed",
        "priority": 0,
        "lease_seconds": 90,
        "failures": 2,
    },
    "dependencies": [
        {"task_id": 3, "title": "Find", "result": "words"},
        {"task_id": 4, "title": "Long", "length": 30_000, "omitted": True},
    ],
    "earlier": [{"result": "poor", "note": "does not rhyme"}],
    "untrusted_content_warning": "content written by other agents",
}


async def claim_next(board: BoardClient) -> Claim | None:
    return await board.claim_next(wait_seconds=20, idempotency_key="k")


async def test_replies_are_read_into_their_types():
    fields = {"task_id": 7, "status": "submitted", "assignee": "w", "result": "poem", "lease_seconds": 45}
    whole = {"task": fields, "messages": []}
    me = {
        "name": "w",
        "role": "worker",
        "skills": [],
        "limits": {"waits": 4, "lease_seconds": 600},
        "tasks": [{"task_id": 7, "claim_id": "c"}],
    }
    tools = {
        "whoami": tool(me),
        "claim_next": tool(CLAIM, {"task": None}),
        "get_task": tool(whole),
        "renew_claim": tool(
            {
                "task_id": 7,
                "status": "claimed",
                "lease_expires_at": "2026-11-29T12:00:00.000Z",
                "changed": True,
                "last_message_id": 3,
            },
            {"task_id": 7, "status": "cancelled", "reason": "why"},
        ),
    }
    with trio.fail_after(20):
        async with (
            open_board_endpoint(tools) as endpoint,
            open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
        ):
            assert await board.whoami() == Identity("w", "worker", (Held(7, "c"),), 600)
            brief = Brief(
                task_id=7,
                title="Write",
                description="a poem",
                acceptance_criteria="rhymes",
                dependencies=(Dependency(3, "Find", "words"), Dependency(4, "Long", None, 30_000)),
                earlier=(Earlier("poor", "does not rhyme"),),
            )
            assert await claim_next(board) == Claim("c", brief, 90, 2)
            assert await claim_next(board) is None
            assert await board.read_task(7) == TaskState("submitted", "w", "poem", 45)
            assert await board.renew_claim(7, "c") == Renewal("claimed", changed=True)
            assert await board.renew_claim(7, "c") == Renewal("cancelled")


async def test_calls_carry_exactly_the_arguments_of_the_tools():
    tools = {
        name: tool({"task_id": 7, "status": "x"})
        for name in ("submit_result", "release_task", "post_message", "renew_claim")
    }
    tools["claim_next"] = tool({"task": None})
    with trio.fail_after(20):
        async with (
            open_board_endpoint(tools) as endpoint,
            open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
        ):
            await board.submit_result(7, "c", "poem é\n")
            await board.release_task(7, "c", "r" * 2_000)
            await board.release_task(7, "c", "why", failed=True, cooldown_seconds=60)
            await board.ask_for_help(7, "help", idempotency_key="h")
            await board.renew_claim(7, "c")
            await claim_next(board)
    sent = [request.json["params"] for request in endpoint.requests if request.json["method"] == "tools/call"]
    assert [(params["name"], params["arguments"]) for params in sent] == [
        ("submit_result", {"task_id": 7, "claim_id": "c", "result": "poem é\n"}),
        ("release_task", {"task_id": 7, "claim_id": "c", "reason": "r" * 1_000, "failed": False}),
        (
            "release_task",
            {"task_id": 7, "claim_id": "c", "reason": "why", "failed": True, "cooldown_seconds": 60},
        ),
        ("post_message", {"task_id": 7, "body": "help", "kind": "help_request", "idempotency_key": "h"}),
        ("renew_claim", {"task_id": 7, "claim_id": "c"}),
        ("claim_next", {"wait_seconds": 20, "idempotency_key": "k"}),
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (error("unavailable"), BoardAwayError),
        (error("internal"), BoardAwayError),
        (error("rate_limited", retry_after_seconds=12), BoardBusyError),
        (error("stale_claim"), ClaimLostError),
        (error("conflict", status="done"), ClaimLostError),
        (error("not_found"), ClaimLostError),
        (error("forbidden"), ClaimLostError),
        (error("invalid"), CallRefusedError),
        (error("too_large"), CallRefusedError),
        (error("new_code"), BoardNonsenseError),
        ({"error": "text"}, BoardNonsenseError),
        (response(401, b'{"error": "x"}'), WorkerRefusedError),
        (response(403, b"no"), WorkerRefusedError),
        (response(421, b'{"error": "host"}'), WorkerRefusedError),
        (response(404, b"<html>"), BoardAwayError),
        (response(408), BoardAwayError),
        (response(429, b"slow", retry_after="9"), BoardBusyError),
        (response(500, b"oops"), BoardAwayError),
        (response(503, b'{"error": "stopping"}'), BoardAwayError),
        (response(302, location="http://127.0.0.1:1/"), BoardNonsenseError),
        (response(307, location="/mcp/"), BoardNonsenseError),
        (response(413, b"{}"), BoardNonsenseError),
        (response(202), BoardNonsenseError),
        (response(200, b"<html>", content_type="text/html"), BoardNonsenseError),
        (response(200, b"x" * (BOARD_REPLY_BYTES + 1)), BoardNonsenseError),
        (hangs_up(b""), BoardAwayError),
        (hangs_up(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{"), BoardAwayError),
    ],
)
async def test_each_way_to_say_no_has_its_type_and_the_client_lives_on(reply, expected):
    tools = {"submit_result": tool(reply, {"task_id": 7, "status": "submitted"})}
    with trio.fail_after(20):
        async with (
            open_board_endpoint(tools) as endpoint,
            open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
        ):
            with pytest.raises(BoardError) as caught:
                await board.submit_result(7, "c", "poem")
            assert type(caught.value) is expected
            assert "words of the board" not in str(caught.value)
            await board.submit_result(7, "c", "poem")


@pytest.mark.parametrize(
    ("asked", "pause"), [(12, 12), (0, 1), (-3, 1), (99_999, 60), ("soon", 5), (None, 5), (float("nan"), 5)]
)
async def test_the_pause_that_a_board_asks_for_is_bounded(asked, pause):
    with trio.fail_after(20):
        async with (
            open_board_endpoint(
                {"claim_next": tool(error("rate_limited", retry_after_seconds=asked))}
            ) as endpoint,
            open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
        ):
            with pytest.raises(BoardBusyError) as caught:
                await claim_next(board)
    assert caught.value.retry_after_seconds == pause


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"task": {"title": 3}},
        {"task": {"title": "x"}},
        {"task": {"title": "x"}, "task_id": 7},
        {"task": {"title": "x"}, "task_id": "7"},
        {"task": []},
    ],
)
async def test_a_claim_of_another_shape_is_nonsense_and_its_text_is_not_repeated(reply):
    with trio.fail_after(20):
        async with (
            open_board_endpoint({"claim_next": tool(reply)}) as endpoint,
            open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
        ):
            with pytest.raises(BoardNonsenseError):
                await claim_next(board)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (response(401, b'{"error": "x"}'), WorkerRefusedError),
        (response(403), WorkerRefusedError),
        (response(421), WorkerRefusedError),
        (response(404), BoardAwayError),
        (response(500), BoardAwayError),
        (response(503), BoardAwayError),
        (response(429, retry_after="3"), BoardBusyError),
        (response(200, b"{}"), BoardNonsenseError),
        (response(301, location="http://127.0.0.1:1/"), BoardNonsenseError),
    ],
)
async def test_a_door_that_stays_shut_has_the_same_types(reply: bytes, expected: type[BoardError]):
    with trio.fail_after(20):
        async with open_endpoint(answers(reply)) as endpoint:
            with pytest.raises(expected):
                async with open_board_client(board_url(endpoint), SecretStr(TOKEN)):
                    raise AssertionError("let in")


async def test_a_board_that_is_not_there_is_away():
    with trio.fail_after(20), pytest.raises(BoardAwayError):
        async with open_board_client("http://127.0.0.1:1/mcp", SecretStr(TOKEN)):
            raise AssertionError("let in")


async def test_an_error_of_the_body_comes_out_unchanged():
    with trio.fail_after(20):
        async with open_board_endpoint({}) as endpoint:
            with pytest.raises(ZeroDivisionError):
                async with open_board_client(board_url(endpoint), SecretStr(TOKEN)):
                    raise ZeroDivisionError


async def test_no_proxy_variable_is_read_and_no_redirect_followed_with_the_token(
    monkeypatch: pytest.MonkeyPatch,
):
    with trio.fail_after(20):
        async with open_endpoint(answers(response(500))) as other:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{other.port}")
            reply = response(307, location=f"http://127.0.0.1:{other.port}/mcp")
            tools = {"claim_next": tool({"task": None}, reply)}
            async with (
                open_board_endpoint(tools) as endpoint,
                open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
            ):
                assert await claim_next(board) is None
                with pytest.raises(BoardNonsenseError):
                    await claim_next(board)
    assert other.requests == []


async def test_a_board_that_accepts_and_never_answers_is_away_after_the_deadline(mock_clock):
    """The clock stands still but for one jump, so that only this call can be late."""

    async def never(arguments: dict) -> bytes:
        mock_clock.jump(BOARD_CALL_SECONDS)
        await trio.sleep_forever()
        return b""

    async with (
        open_board_endpoint({"claim_next": never}) as endpoint,
        open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
    ):
        with pytest.raises(BoardAwayError):
            await claim_next(board)


async def test_three_calls_at_once_do_not_disturb_each_other():
    arrived: list[int] = []
    everyone = trio.Event()

    async def submit(arguments: dict) -> dict:
        arrived.append(arguments["task_id"])
        if len(arrived) == 3:
            everyone.set()
        await everyone.wait()
        return error("stale_claim") if arguments["task_id"] == 2 else {"task_id": arguments["task_id"]}

    outcomes: dict[int, str] = {}

    async with open_board_endpoint({"submit_result": submit}) as endpoint:

        async def call(task_id: int) -> None:
            try:
                await board.submit_result(task_id, "c", "x")
                outcomes[task_id] = "stored"
            except ClaimLostError as lost:
                outcomes[task_id] = lost.code

        with trio.fail_after(20):
            async with (
                open_board_client(board_url(endpoint), SecretStr(TOKEN)) as board,
                trio.open_nursery() as nursery,
            ):
                for task_id in (1, 2, 3):
                    nursery.start_soon(call, task_id)
    assert outcomes == {1: "stored", 2: "stale_claim", 3: "stored"}
