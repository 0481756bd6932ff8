"""Log lines: what may reach the stream, whoever wrote it."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from supervisor.log.setup import CAPPED_LIBRARIES, configure_logging

SECRET = "rt_a-secret-that-nobody-may-read"

texts = st.text(st.characters(codec=None, categories=None))
values = st.recursive(
    texts | st.integers() | st.floats() | st.booleans() | st.none() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner) | st.dictionaries(st.integers(), inner),
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _logging_as_before():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in CAPPED_LIBRARIES}
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def logged(format, act, level="debug", stream=None, environ=None):
    stream = stream if stream is not None else io.StringIO()
    configure_logging(format, level, stream, environ or {})
    act()
    return stream.getvalue()


def emit(event, **values):
    structlog.get_logger("roundtable.test").warning(event, **values)


@pytest.mark.spec("LOG-3")
@given(texts, st.dictionaries(texts.filter(lambda key: key != "event"), values, max_size=4))
def test_a_console_event_is_one_printable_line_whatever_is_in_it(event, fields):
    fields = {
        key: value
        for key, value in fields.items()
        if key not in {"exc_info", "stack_info", "stacklevel", "extra"}
    }
    line = logged("console", lambda: emit(event, **fields))
    assert line.endswith("\n")
    assert line[:-1].isprintable()


@pytest.mark.spec("LOG-3", "LOG-4")
@given(texts, texts, values)
def test_a_json_event_is_one_printable_object_that_gives_the_text_back(event, text, value):
    line = logged("json", lambda: emit(event, text=text[:1000], value=value))
    assert line[:-1].isprintable()
    assert line[:-1].isascii()
    content = json.loads(line)
    assert content["text"] == text[:1000].encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert content["level"] == "warning"


@pytest.mark.spec("LOG-3")
@given(texts)
def test_what_another_library_logs_is_escaped_too(text):
    line = logged("console", lambda: logging.getLogger("somebody.else").warning("said %s", text))
    assert line[:-1].isprintable()


@pytest.mark.spec("LOG-3")
@given(texts)
def test_no_word_of_an_exception_can_look_like_an_event(text):
    def fail():
        try:
            raise RuntimeError(text)
        except RuntimeError:
            structlog.get_logger("roundtable.test").exception("fault")

    first, *rest = logged("console", fail)[:-1].split("\n")
    assert first.endswith("fault logger=roundtable.test")
    assert "  Traceback (most recent call last):" in rest
    assert all(row.isprintable() and (row == "" or row.startswith("  ")) for row in rest)


def test_a_traceback_is_one_string_in_json():
    def fail():
        try:
            raise RuntimeError("first\nsecond\x1b[31m")
        except RuntimeError:
            structlog.get_logger("roundtable.test").exception("fault")

    line = logged("json", fail)
    assert line.count("\n") == 1
    assert json.loads(line)["exception"].endswith("RuntimeError: first\nsecond\x1b[31m")


def test_a_value_cannot_forge_another_field():
    line = logged("console", lambda: emit("claimed", title='x agent=leader "'))
    assert line.rstrip().endswith(r'claimed title="x agent=leader \"" logger=roundtable.test')


def test_a_field_named_as_a_fact_leaves_the_fact_alone():
    content = json.loads(logged("json", lambda: emit("claimed", time=1, level="mine", exception="none")))
    assert content["level"] == "warning"
    assert (content["time_"], content["level_"], content["exception_"]) == (1, "mine", "none")


def test_times_are_utc_with_milliseconds():
    content = json.loads(logged("json", lambda: emit("now")))
    assert len(content["time"]) == len("2026-11-29T12:00:00.000Z")
    assert content["time"].endswith("Z")


@pytest.mark.spec("LOG-2")
@pytest.mark.parametrize("name", sorted(CAPPED_LIBRARIES))
def test_libraries_that_log_content_are_capped_at_warning(name):
    def act():
        inner = logging.getLogger(f"{name}._inner")
        inner.setLevel(logging.DEBUG)
        try:
            inner.debug(SECRET)
            inner.info(SECRET)
            logging.getLogger(name).info(SECRET)
            inner.warning("heard")
        finally:
            inner.setLevel(logging.NOTSET)

    line = logged("console", act)
    assert SECRET not in line
    assert "heard" in line


@pytest.mark.spec("LOG-1", "LOG-2")
def test_a_library_that_nobody_has_thought_of_is_heard_from_warning_on():
    def act():
        logger = logging.getLogger("somebody.else")
        logger.debug(SECRET)
        logger.info(SECRET)
        logger.warning("heard")

    line = logged("console", act)
    assert SECRET not in line
    assert "heard" in line


@pytest.mark.parametrize("name", ["roundtable.board.actor", "supervisor.work.worker", "__main__"])
def test_the_program_s_own_modules_are_heard_below_warning(name):
    assert "heard" in logged("console", lambda: structlog.get_logger(name).debug("heard"))


@pytest.mark.spec("LOG-1")
@pytest.mark.parametrize("name", ["mcp.server", "somebody.else"])
def test_a_library_s_traceback_comes_without_the_words_of_its_exceptions(name):
    def fail():
        try:
            try:
                raise ValueError(SECRET)
            except ValueError as error:
                raise ExceptionGroup(SECRET, [KeyError(SECRET)]) from error
        except ExceptionGroup:
            logging.getLogger(name).exception("handler raised")

    line = logged("console", fail)
    assert SECRET not in line
    assert "ValueError" in line
    assert "KeyError" in line
    assert "test_logs.py" in line


def test_the_level_is_kept():
    def act():
        structlog.get_logger("roundtable.test").info("quiet")
        structlog.get_logger("roundtable.test").error("loud")

    line = logged("console", act, level="warning")
    assert "quiet" not in line
    assert "loud" in line


@pytest.mark.parametrize(
    ("stream", "environ", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (io.StringIO, {}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(stream, environ, coloured):
    assert ("\x1b[" in logged("console", lambda: emit("hello"), stream=stream(), environ=environ)) is coloured


def test_a_stream_that_cannot_encode_gets_escapes():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    configure_logging("console", "info", stream, {})
    emit("caf\u00e9")
    assert b"caf\\xe9" in raw.getvalue()


def test_a_closed_stream_harms_nobody():
    stream = io.StringIO()
    configure_logging("console", "info", stream, {})
    stream.close()
    emit("nobody hears")
    configure_logging("console", "info", stream, {})


def test_a_stream_that_fails_harms_nobody():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    configure_logging("console", "info", Full(), {})
    emit("nobody hears")


def test_a_value_that_cannot_be_shown_is_named_by_its_type():
    class Rude:
        def __repr__(self):
            raise RuntimeError("no")

    assert "<Rude that cannot be shown>" in logged("console", lambda: emit("look", at=Rude()))


def test_a_line_that_cannot_be_put_together_says_so():
    line = logged("json", lambda: logging.getLogger("somebody.else").error("%d", "no number"))
    assert json.loads(line)["event"] == "a log line could not be put together"
    assert json.loads(line)["logger"] == "somebody.else"


def test_configuring_again_replaces_and_does_not_double():
    configure_logging("json", "info", io.StringIO(), {})
    assert logged("json", lambda: emit("once")).count("\n") == 1
