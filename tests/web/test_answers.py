"""The way out: ASCII on the wire, and whether an answer was handed over."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable.web.answers import deliver, escape
from roundtable.web.line import Line

JSON_TYPE = (b"content-type", b"application/json")
SSE_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")


def state():
    return {"line": Line(lambda: False)}


async def run(headers, parts, *, ends=True, mark=b""):
    """What goes on the wire when an application answers in these parts, and whether what is marked was given by then."""
    sent, scope = [], {"state": state()}

    async def app(scope, receive, send):
        scope["state"]["handover"].mark = mark
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(parts, 1):
            await send(
                {"type": "http.response.body", "body": part, "more_body": not ends or number < len(parts)}
            )

    async def send(message):
        sent.append((message, scope["state"]["handover"].given))

    await deliver(app, scope, None, send)
    return sent, scope["state"]["handover"].given


def body(sent):
    return b"".join(message.get("body", b"") for message, _ in sent)


@pytest.mark.spec("HTTP-9")
async def test_a_json_answer_is_escaped_and_its_length_is_that_of_what_is_sent():
    value = {"text": "é 中 \U0001f600 \u2028"}
    raw = json.dumps(value, ensure_ascii=False).encode()
    sent, _ = await run([JSON_TYPE, (b"Content-Length", b"%d" % len(raw))], [raw])
    assert body(sent).isascii()
    assert json.loads(body(sent)) == value
    headers = [header for header in sent[0][0]["headers"] if header[0].lower() == b"content-length"]
    assert headers == [(b"content-length", b"%d" % len(body(sent)))]


@pytest.mark.spec("HTTP-9")
async def test_an_event_stream_is_escaped_part_by_part_and_begins_at_once():
    sent, _ = await run([SSE_TYPE], ['data: {"x":"é"}\n\n'.encode(), b": ping\n\n", b""])
    assert sent[0][0]["type"] == "http.response.start"
    assert body(sent) == b'data: {"x":"\\u00e9"}\n\n: ping\n\n'


@pytest.mark.spec("HTTP-9")
@pytest.mark.parametrize("media", [JSON_TYPE, SSE_TYPE])
async def test_a_character_split_between_parts_is_escaped_whole(media):
    raw = '"a😀b"'.encode()
    for cut in range(len(raw) + 1):
        sent, _ = await run([media, (b"content-length", b"%d" % len(raw))], [raw[:cut], raw[cut:]])
        assert json.loads(body(sent)) == "a😀b"
        assert body(sent).isascii()


async def test_another_media_type_goes_out_as_it_is():
    raw = "é".encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
    sent, _ = await run(headers, [raw])
    assert (sent[0][0]["headers"], body(sent)) == (headers, raw)


@pytest.mark.spec("CONN-4")
async def test_the_end_goes_out_only_after_the_application_has_returned():
    returned, sent = [], []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n"})
        returned.append(True)

    async def send(message):
        sent.append((message.get("more_body"), bool(returned)))

    await deliver(app, {"state": state()}, None, send)
    assert sent == [(None, False), (True, False), (False, True)]


async def test_a_json_answer_goes_out_as_its_start_and_one_whole_body():
    returned, sent = [], []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE]})
        await send({"type": "http.response.body", "body": b"{}"})
        returned.append(True)

    async def send(message):
        sent.append((message.get("body"), message.get("more_body"), bool(returned)))

    await deliver(app, {"state": state()}, None, send)
    assert sent == [(None, None, False), (b"{}", False, True)]


@pytest.mark.spec("CLAIM-9")
async def test_what_an_answer_gives_is_handed_over_once_its_part_is_sent_whatever_follows():
    for ends in (True, False):
        parts = [b"data: 1\n\n", b"data: gift\n\n", b": ping\n\n"]
        sent, given = await run([SSE_TYPE], parts, ends=ends, mark=b"gift")
        assert [was_given for message, was_given in sent if message.get("body")] == [False, False, True]
        assert given


@pytest.mark.spec("CLAIM-9")
async def test_a_json_answer_that_gives_something_is_sent_before_the_application_returns():
    sent, given = await run([JSON_TYPE], ['{"é":"gift"}'.encode()], mark=b"gift")
    assert [(message.get("body"), was_given) for message, was_given in sent] == [
        (None, False),
        (b'{"\\u00e9":"gift"}', False),
        (b"", True),
    ]
    assert given


@pytest.mark.spec("CLAIM-9")
@pytest.mark.parametrize("mark", [b"", b"gift"])
async def test_an_answer_in_which_the_mark_does_not_stand_hands_nothing_over(mark):
    _, given = await run([SSE_TYPE], [b"data: 1\n\n"], mark=mark)
    assert not given


async def test_an_answer_without_an_end_stays_open():
    sent, _ = await run([SSE_TYPE], [b"data: 1\n\n"], ends=False)
    assert all(message.get("more_body", True) for message, _ in sent)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.spec("HTTP-9")
@given(json_values)
def test_escaping_changes_no_value(value):
    plain = json.dumps(value, ensure_ascii=False)
    assert escape(plain).isascii()
    assert json.loads(escape(plain)) == value
