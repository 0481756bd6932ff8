"""The real model behind the real server, where both are on this machine."""

import importlib.util

import httpx2
import openai
import pytest
import trio

from supervisor.local_model.server import local_model
from supervisor.local_model.weights import SMOLLM2, find_cache_folder

WEIGHTS = find_cache_folder() / SMOLLM2.file_name

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None, reason="the `local` extra is not installed"
    ),
    pytest.mark.skipif(
        not WEIGHTS.is_file(), reason="the weights are not in the cache: `roundtable demo` fetches them"
    ),
]


async def test_a_real_model_answers_through_the_openai_client(tmp_path):
    with trio.fail_after(120):
        async with local_model(WEIGHTS, tmp_path / "model.log") as endpoint, httpx2.AsyncClient() as http:
            client = openai.AsyncOpenAI(
                base_url=endpoint.base_url, api_key="none", max_retries=0, http_client=http
            )
            answer = await client.chat.completions.create(
                model=endpoint.model,
                temperature=0,
                max_tokens=30,
                messages=[{"role": "user", "content": "Say hello."}],
            )
    assert any(char.isalpha() for char in answer.choices[0].message.content)
    assert answer.model == endpoint.model
    assert answer.usage.completion_tokens > 0
