from web_edge import Inner, WORKER, edge, request, response


async def test_a_request_that_passes_every_door_is_answered_by_the_application():
    async with edge() as server:
        answer = response(await server.ask(request(body=b'{"a":1}', close=True)))
        assert (answer.status, answer.body) == (200, b'{"ok":true}')
        assert server.inner.calls[0]["agent"] is WORKER
        assert server.inner.calls[0]["body"] == b'{"a":1}'
