"""One call of a model at an OpenAI-compatible endpoint: one HTTP request, one deadline, a bounded answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlsplit

import httpx2
import openai
import trio
from pydantic import SecretStr

from supervisor.config.authorities import is_untrusted, tls_context
from supervisor.config.roster import Worker
from supervisor.model.bounded_body import read_body, without_framing
from supervisor.model.completion import Answer, read_answer
from supervisor.model.prompt import Message
from supervisor.model.retry_after import retry_after_seconds
from supervisor.model.usage import NO_USAGE
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import ANSWER_BYTES
from supervisor.rules.refusals import refusal

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

_HEADERS_SENT: Final = ("host", "accept", "content-type", "content-length", "transfer-encoding", "user-agent")
"""All else that the openai package adds is dropped: it takes headers, another key among them, from OPENAI_ variables."""

_BROKEN: Final = "the connection to the endpoint failed"
_UNTRUSTED: Final = "the endpoint's certificate is not accepted; ca_file names who has signed it"
_OWN_FAULTS: Final = (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)


class ModelClient(Protocol):
    async def ask(self, messages: Sequence[Message], *, model: str) -> Answer:
        """The answer of the model of this name.

        Raises ModelCallError, whose text holds no secret and nothing that the endpoint sent.
        """
        ...


@asynccontextmanager
async def open_model(
    worker: Worker, key: SecretStr | None, *, utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[ModelClient]:
    """The worker's model. Its connections close with the context; a call that runs then is cancelled by its owner."""
    # A kept connection may be half dead by the next call, minutes later; that would look like a failing network.
    transport = httpx2.AsyncHTTPTransport(
        verify=tls_context(worker.base_url, worker.ca_file),
        trust_env=False,
        retries=0,
        limits=httpx2.Limits(max_keepalive_connections=0),
    )
    async with httpx2.AsyncClient(
        transport=_GuardedTransport(transport, key), trust_env=False, follow_redirects=False, timeout=None
    ) as http:
        # The package never sees the key: the transport puts it on, so that none of its errors can hold it.
        client = openai.AsyncOpenAI(
            api_key="unused", base_url=worker.base_url, http_client=http, max_retries=0, timeout=None
        )
        yield _OpenAIModel(client, worker, utc_now)


class _OpenAIModel:
    def __init__(self, client: openai.AsyncOpenAI, worker: Worker, utc_now: Callable[[], datetime]) -> None:
        self._client = client
        self._worker = worker
        self._utc_now = utc_now

    async def ask(self, messages: Sequence[Message], *, model: str) -> Answer:
        body: bytes | None = None
        try:
            with trio.move_on_after(self._worker.timeout_seconds):
                response = await self._client.chat.completions.with_raw_response.create(
                    model=model,
                    messages=cast("list[ChatCompletionMessageParam]", list(messages)),
                    **self._options(),
                )
                body = response.content
        except _LostAnswer as lost:
            raise ModelCallError(lost.kind, lost.detail, usage=lost.usage) from None
        except openai.APIStatusError as error:
            wait = retry_after_seconds(error.response.headers.get("retry-after"), self._utc_now())
            raise refusal(error.status_code, error.body, model=model, retry_after_seconds=wait) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, _OWN_FAULTS):
                raise ModelCallError(
                    FailureClass.CONFIG, "the request cannot be sent to this address"
                ) from None
            if is_untrusted(error):
                raise ModelCallError(FailureClass.NETWORK, _UNTRUSTED) from None
            raise ModelCallError(FailureClass.NETWORK, _BROKEN) from None
        if body is None:
            detail = f"no complete answer within {self._worker.timeout_seconds:g} s"
            # The model may have worked on it all the same.
            raise ModelCallError(FailureClass.TIMEOUT, detail, usage=None)
        return read_answer(body, messages)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._worker.temperature is not None:
            options["temperature"] = self._worker.temperature
        if self._worker.max_output_tokens is not None:
            options[_tokens_field(self._worker.base_url)] = self._worker.max_output_tokens
        return options


def _tokens_field(base_url: str) -> str:
    """OpenAI's own newer models refuse `max_tokens`, which is the only one that most others know."""
    return "max_completion_tokens" if urlsplit(base_url).hostname == "api.openai.com" else "max_tokens"


class _LostAnswer(openai.OpenAIError):
    """An answer began, but cannot be read to its end. The package passes errors of its own family through unchanged.

    A success was worked for, and sent when the model was done, so nobody knows what it took.
    """

    def __init__(self, kind: FailureClass, detail: str, response: httpx2.Response) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.usage = None if response.is_success else NO_USAGE


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends only the headers that a call needs, and reads no more than ANSWER_BYTES of what comes back."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, key: SecretStr | None) -> None:
        self._inner = inner
        self._key = key

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = [(name, request.headers[name]) for name in _HEADERS_SENT if name in request.headers]
        # Compressed, a small answer could unfold to any size.
        headers += [("accept-encoding", "identity"), ("connection", "close")]
        if self._key is not None:
            headers.append(("authorization", f"Bearer {self._key.get_secret_value()}"))
        # A request of its own: the package reads in the first one how it wants the response.
        bare = httpx2.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
        )
        response = await self._inner.handle_async_request(bare)
        if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            await response.aclose()
            detail = "the answer is compressed, which was not asked for"
            raise _LostAnswer(FailureClass.CONTENT, detail, response)
        try:
            body = await read_body(response, max_bytes=ANSWER_BYTES)
        except httpx2.TransportError:
            raise _LostAnswer(FailureClass.NETWORK, _BROKEN, response) from None
        if body is None:
            raise _LostAnswer(FailureClass.CONTENT, f"the answer is over {ANSWER_BYTES} bytes", response)
        return httpx2.Response(response.status_code, headers=without_framing(response.headers), content=body)

    async def aclose(self) -> None:
        await self._inner.aclose()
