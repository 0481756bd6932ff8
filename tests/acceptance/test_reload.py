"""agents.json changed under a running program: who is let in, what is refused, and that SIGHUP ends nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
import trio

from tests.acceptance.programs import ROOT, open_program, write_agents, write_roster
from tests.acceptance.seats import sdk_seat
from tests.supervisor.scripted_endpoint import answers, completion, open_endpoint, response

PATIENCE_SECONDS = 60.0


async def status(url: str, token: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
        reply = await http.post(
            url,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"},
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        )
    return reply.status_code


async def ask_roundtable(folder, *words: str) -> subprocess.CompletedProcess[bytes]:
    return await trio.run_process(
        [sys.executable, "-c", "from roundtable.cli.main import main; main()", *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )


@pytest.mark.spec("CLI-13", "CONF-11")
async def test_token_changes_one_agent_of_a_running_server_and_leaves_the_others_their_claims(
    tmp_path,
) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker", bert="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            url = await serve.url()
            async with (
                sdk_seat(url, tokens["lead"]) as lead,
                sdk_seat(url, tokens["anna"]) as anna,
                sdk_seat(url, tokens["bert"]) as bert,
            ):
                for _ in range(2):
                    await lead.call("create_task", title="t", description="d")
                assert (await anna.call("claim_next"))["task_id"] == 1
                assert (await bert.call("claim_next"))["task_id"] == 2

                made = await ask_roundtable(tmp_path, "token", "new", "carl", "--json")
                assert made.returncode == 0, made.stderr
                told = json.loads(made.stdout)
                assert told["server_process"] == serve.process.pid
                await serve.events("agents_reloaded")
                async with sdk_seat(url, told["token"]) as carl:
                    assert (await carl.call("whoami"))["name"] == "carl"

                rotated = json.loads(
                    (await ask_roundtable(tmp_path, "token", "rotate", "anna", "--json")).stdout
                )
                await serve.events("agents_reloaded", number=2)
                assert await status(url, tokens["anna"]) == 401
                async with sdk_seat(url, rotated["token"]) as again:
                    assert [held["task_id"] for held in (await again.call("whoami"))["tasks"]] == [1]

                gone = await ask_roundtable(tmp_path, "token", "revoke", "bert")
                assert b"was told to read the file again" in gone.stderr
                await serve.events("agents_reloaded", number=3)
                assert await status(url, tokens["bert"]) == 401
                task = (await lead.call("get_task", task_id=2))["task"]
                assert (task["status"], task["failures"]) == ("open", 0)
                assert {row["name"] for row in (await lead.call("list_agents"))["agents"]} == {
                    "lead",
                    "anna",
                    "carl",
                }
            serve.process.send_signal(signal.SIGTERM)
            assert await serve.ended(10) == 0
            late = await ask_roundtable(tmp_path, "token", "revoke", "carl")
            assert (late.returncode, b"No server runs" in late.stderr) == (0, True)
    said = serve.out.text + serve.err.text
    assert [token for token in [*tokens.values(), told["token"], rotated["token"]] if token in said] == []


@pytest.mark.spec("CONF-11")
async def test_a_broken_file_is_refused_with_each_problem_and_the_old_agents_stay(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            url = await serve.url()
            async with sdk_seat(url, tokens["anna"]) as anna:
                (tmp_path / "agents.json").write_text('{"short": {"name": "x", "role": "boss"}}')
                serve.process.send_signal(signal.SIGHUP)
                await serve.events("agents_refused", number=2)
                assert (await anna.call("whoami"))["name"] == "anna"
                (tmp_path / "agents.json").unlink()
                serve.process.send_signal(signal.SIGHUP)
                assert "is not there" in await serve.events("agents_refused", number=3)
                assert (await anna.call("whoami"))["name"] == "anna"
                write_agents(tmp_path, lead="leader")
                serve.process.send_signal(signal.SIGHUP)
                await serve.events("agents_reloaded")
                assert await status(url, tokens["anna"]) == 401
    assert serve.count("fault") == 0


@pytest.mark.spec("CONF-11", "POOL-3")
async def test_workers_of_the_pool_stay_when_up_reads_agents_json_again(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(response(200, completion("done")))) as endpoint:
            poet = {"name": "poet", "model": "m", "base_url": endpoint.url}
            write_roster(tmp_path, {"poll_interval": 0.05}, poet)
            async with open_program("up", folder=tmp_path) as up:
                url = await up.url()
                async with sdk_seat(url, tokens["lead"]) as lead:
                    write_agents(tmp_path, lead="leader", poet="worker")
                    up.process.send_signal(signal.SIGHUP)
                    assert "poet" in await up.events("agents_refused")
                    write_agents(tmp_path, lead="leader")
                    up.process.send_signal(signal.SIGHUP)
                    await up.events("agents_reloaded")
                    assert await status(url, tokens["anna"]) == 401
                    agents = (await lead.call("list_agents"))["agents"]
                    assert {row["name"] for row in agents} == {"lead", "poet"}
                    await lead.call("create_task", title="t", description="d", assignee="poet")
                    await up.events("submitted")
                up.process.send_signal(signal.SIGTERM)
                assert await up.ended(12) == 0


@pytest.mark.spec("SUP-10", "CONF-11", "HTTP-12")
async def test_the_roster_is_read_again_and_a_worker_that_is_off_it_ends_its_task_first(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    answer_now = trio.Event()

    async def answer_when_told(request, stream) -> None:
        await answer_now.wait()
        await stream.send_all(response(200, completion("done")))

    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answer_when_told) as endpoint,
            open_program("up", folder=tmp_path) as up,
            sdk_seat(await up.url(), tokens["lead"]) as lead,
        ):

            async def names() -> set[str]:
                return {row["name"] for row in (await lead.call("list_agents"))["agents"]}

            def write_workers(*workers: str) -> None:
                pool = {"poll_interval": 0.05}
                write_roster(
                    tmp_path,
                    pool,
                    *({"name": name, "model": "m", "base_url": endpoint.url} for name in workers),
                )

            write_workers("poet")  # there was none at the start
            up.process.send_signal(signal.SIGHUP)
            await up.events("roster_reloaded")
            await lead.call("create_task", title="t", description="d", assignee="poet")
            await up.events("claimed")

            # a broken roster keeps nobody from changing the agents, nor the other way round
            (tmp_path / "config" / "workers.toml").write_text("workers = 5")
            write_agents(tmp_path, lead="leader", anna="worker")
            up.process.send_signal(signal.SIGHUP)
            await up.events("roster_refused")
            await up.events("agents_reloaded", number=2)
            assert await names() == {"lead", "anna", "poet"}
            (tmp_path / "agents.json").write_text("{")
            write_workers("novelist")
            up.process.send_signal(signal.SIGHUP)
            await up.events("agents_refused")
            await up.events("roster_reloaded", number=2)

            assert await names() == {"lead", "anna", "novelist", "poet"}
            assert (await lead.call("get_task", task_id=1))["task"]["status"] == "claimed"
            answer_now.set()
            await up.events("submitted")
            await up.events("workers_left")
            assert await names() == {"lead", "anna", "novelist"}
            task = (await lead.call("get_task", task_id=1))["task"]
            assert (task["status"], task["assignee"]) == ("submitted", "poet")
            await lead.call("create_task", title="t", description="d", assignee="novelist")
            await up.events("submitted", number=2)
            up.process.send_signal(signal.SIGTERM)
            assert await up.ended(12) == 0


@pytest.mark.spec("SUP-10", "CONF-11")
async def test_files_that_are_gone_are_refused_and_everybody_works_on(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    answer_now = trio.Event()

    async def answer_when_told(request, stream) -> None:
        await answer_now.wait()
        await stream.send_all(response(200, completion("done")))

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answer_when_told) as endpoint:
            poet = {"name": "poet", "model": "m", "base_url": endpoint.url}
            write_roster(tmp_path, {"poll_interval": 0.05}, poet)
            async with (
                open_program("up", folder=tmp_path) as up,
                sdk_seat(await up.url(), tokens["lead"]) as lead,
            ):
                await lead.call("create_task", title="t", description="d")
                await up.events("claimed")
                (tmp_path / "config" / "workers.toml").unlink()
                (tmp_path / "agents.json").unlink()
                up.process.send_signal(signal.SIGHUP)
                assert "is not there" in await up.events("agents_refused")
                assert "workers.toml: is not there any more" in await up.events("roster_refused")
                answer_now.set()
                await up.events("submitted")
                await lead.call("create_task", title="t", description="d")
                await up.events("submitted", number=2)
                write_roster(tmp_path, {"poll_interval": 0.05})
                up.process.send_signal(signal.SIGHUP)
                await up.events("workers_left")  # an empty roster is what takes the workers off
                (tmp_path / "config" / "workers.toml").unlink()
                up.process.send_signal(signal.SIGHUP)
                await up.events("agents_refused", number=3)
                up.process.send_signal(signal.SIGTERM)
                assert await up.ended(12) == 0
    assert up.count("roster_refused") == 1
    assert len(endpoint.requests) == 2


@pytest.mark.spec("POOL-1", "POOL-3", "CLI-2", "SUP-10")
async def test_every_problem_of_both_files_is_told_at_once_at_the_start_and_at_a_hang_up(tmp_path) -> None:
    write_agents(tmp_path, lead="leader", poet="boss")
    poet = {"name": "poet", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    far = {**poet, "name": "far", "base_url": "https://models.example/v1", "api_key_env": "NOT_SET"}
    wrong = [
        ('workers[2] ("poet"): concurrency', {**poet, "concurrency": 0}),
        ('workers[3] ("far"): api_key_env', far),
    ]
    write_roster(tmp_path, {}, poet, *(worker for _, worker in wrong))
    told = [place for place, _ in wrong]
    told += [
        'workers[2] ("poet"): name: is that of workers[1] too',
        'workers[1] ("poet"): name: is in the agents file too',
    ]
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("up", folder=tmp_path) as up:
            assert await up.ended(20) == 2
        assert [place for place in told if place not in up.err.text] == []
        assert 'agent 2 ("poet"): role must be leader or worker' in up.err.text
        write_agents(tmp_path, lead="leader")
        write_roster(tmp_path, {}, poet)
        async with open_program("up", folder=tmp_path, settings={"ROUNDTABLE_LOG_FORMAT": "json"}) as up:
            await up.out.line(lambda line: '"listening"' in line)
            write_agents(tmp_path, lead="leader", poet="worker")
            write_roster(tmp_path, {}, poet, *(worker for _, worker in wrong))
            up.process.send_signal(signal.SIGHUP)
            await up.err.line(lambda line: "agents_refused" in line)
            up.process.send_signal(signal.SIGTERM)
            assert await up.ended(12) == 0
    events = [json.loads(line) for line in up.err.lines]
    refused = [event["problem"] for event in events if event["event"] == "roster_refused"]
    assert [place for place in told if not any(place in problem for problem in refused)] == []
    # agents.json has nothing wrong in itself, but the roster in force has a worker of that name
    [clash] = [event["problem"] for event in events if event["event"] == "agents_refused"]
    assert clash.endswith('workers[1] ("poet"): name: is in the agents file too; one of them must change')


@pytest.mark.spec("SUP-10", "CONF-6")
async def test_a_changed_key_in_the_environment_file_is_taken_at_a_hang_up_and_touches_no_other_worker(
    tmp_path,
) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    (tmp_path / ".env").write_text("POET_KEY=first\n")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(response(200, completion("done")))) as endpoint:
            novelist = {"name": "novelist", "model": "m", "base_url": endpoint.url}
            poet = {**novelist, "name": "poet", "api_key_env": "POET_KEY"}
            write_roster(tmp_path, {"poll_interval": 0.05}, poet, novelist)
            async with (
                open_program("up", folder=tmp_path) as up,
                sdk_seat(await up.url(), tokens["lead"]) as lead,
            ):
                await lead.call("create_task", title="t", description="d", assignee="poet")
                await up.events("submitted")
                (tmp_path / ".env").write_text("POET_KEY=second\n")
                up.process.send_signal(signal.SIGHUP)
                await up.events("roster_reloaded")
                await lead.call("create_task", title="t", description="d", assignee="poet")
                await up.events("submitted", number=2)
                up.process.send_signal(signal.SIGTERM)
                assert await up.ended(12) == 0
    assert [request.header("authorization") for request in endpoint.requests] == [
        ["Bearer first"],
        ["Bearer second"],
    ]
    left = [line for line in up.err.lines if "worker_leaves" in line]
    assert [line for line in left if "worker=poet" not in line] == []
    assert len(left) == 1


@pytest.mark.spec("SUP-10")
async def test_of_two_hang_ups_quickly_in_a_row_the_last_roster_holds(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answers(response(200, completion("done")))) as endpoint,
            open_program("up", folder=tmp_path, settings={"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0"}) as up,
            sdk_seat(await up.url(), tokens["lead"]) as lead,
        ):
            for round_number in range(3):
                for name in ("passing", f"staying{round_number}"):
                    worker = {"name": name, "model": "m", "base_url": endpoint.url}
                    write_roster(tmp_path, {"poll_interval": 0.05}, worker)
                    up.process.send_signal(signal.SIGHUP)
                names: set[str] = set()
                while names != {"lead", f"staying{round_number}"}:
                    names = {row["name"] for row in (await lead.call("list_agents"))["agents"]}
            await lead.call("create_task", title="t", description="d", assignee="staying2")
            await up.events("submitted")
            up.process.send_signal(signal.SIGTERM)
            assert await up.ended(12) == 0


@pytest.mark.spec("CONF-11", "STOP-1")
async def test_hang_ups_from_the_first_line_to_the_last_end_nothing(tmp_path) -> None:
    write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            await serve.err.line()  # the log's first line comes before the server listens
            for _ in range(50):
                await hang_up(serve.process)
            await serve.url()
            serve.process.send_signal(signal.SIGTERM)
            while serve.process.poll() is None:
                await hang_up(serve.process)
            assert await serve.ended(10) == 0


async def hang_up(process: trio.Process) -> None:
    """One SIGHUP, and a moment for it: faster than they are handled, signals nest in the interpreter until it gives up."""
    process.send_signal(signal.SIGHUP)
    with trio.move_on_after(0.01):
        await process.wait()


async def test_a_process_that_only_stands_in_an_old_lock_file_is_not_signalled(tmp_path) -> None:
    write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            await serve.url()
            serve.process.kill()
            await serve.ended(10)
        lock = tmp_path / "roundtable.db.lock"
        assert lock.read_text().startswith(f"process {serve.process.pid} ")
        innocent = await trio.lowlevel.open_process([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            lock.write_text(lock.read_text().replace(str(serve.process.pid), str(innocent.pid)))
            done = await ask_roundtable(tmp_path, "token", "revoke", "anna")
            assert (done.returncode, b"No server runs" in done.stderr) == (0, True)
            assert innocent.poll() is None
        finally:
            innocent.kill()
            await innocent.wait()
