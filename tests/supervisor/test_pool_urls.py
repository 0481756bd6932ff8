"""Which addresses the pool sends anything to."""

from __future__ import annotations

import pytest

from supervisor.config.urls import UrlError, checked_url, is_loopback


@pytest.mark.spec("POOL-6")
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("https://api.example.com/v1/", "https://api.example.com/v1"),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("http://localhost/v1", "http://localhost/v1"),
        ("HTTP://LOCALHOST/v1", "http://localhost/v1"),
    ],
)
def test_https_and_http_to_this_machine_are_taken(text: str, url: str):
    assert checked_url(text) == url


@pytest.mark.spec("POOL-6")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com",
        "http://api.example.com/v1",
        "http://localhost.example.com/v1",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.2/",
        "http://127.1/",
        "http://0.0.0.0/",
        "http://[::2]/",
        "http://2130706433/",
        "http://127.0.0.1@evil.example/",
        "https://user:secret@api.example.com/",
        "https://@api.example.com/",
        "http://127.0.0.1\\@evil.example/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:abc/",
        "http:///v1",
        "https://",
        "https://api.example.com/?key=secret",
        "https://api.example.com/#secret",
        "https://api.example.com/ v1",
        "\nhttps://api.example.com/",
        "https://api.exam\tple.com/",
        "https://\u0430pi.example.com/",
        "https://[::1",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "//127.0.0.1/",
    ],
)
def test_everything_else_is_refused_without_being_repeated(text: str):
    with pytest.raises(UrlError) as caught:
        checked_url(text)
    assert "secret" not in str(caught.value)


@pytest.mark.spec("POOL-24")
@pytest.mark.parametrize(
    ("spellings", "url"),
    [
        (
            [
                "http://localhost/v1",
                "HTTP://LocalHost:80/v1/",
                "http://localhost:/v1//",
                "http://localhost:0080/v1",
            ],
            "http://localhost/v1",
        ),
        (
            [
                "https://api.example.com/v1",
                "HTTPS://API.Example.COM:443/v1/",
                "https://api.example.com/x/../v1/./",
            ],
            "https://api.example.com/v1",
        ),
        (
            ["https://api.example.com", "https://api.example.com/", "https://API.example.com:443//"],
            "https://api.example.com",
        ),
        (["http://[::1]:80/v1", "HTTP://[::1]/v1/"], "http://[::1]/v1"),
        (["https://api.example.com:80/v1"], "https://api.example.com:80/v1"),
        (["http://localhost:443/v1"], "http://localhost:443/v1"),
        (["https://api.example.com/V1/%7Ex"], "https://api.example.com/V1/%7Ex"),
    ],
)
def test_one_address_has_one_spelling_however_it_is_written(spellings: list[str], url: str):
    assert {checked_url(spelling) for spelling in spellings} == {url}
    assert checked_url(url) == url


@pytest.mark.spec("POOL-24")
def test_addresses_that_only_mean_the_same_are_not_one():
    """What a name stands for can change, and it is not for the pool to guess."""
    apart = [
        "http://localhost/v1",
        "http://127.0.0.1/v1",
        "http://[::1]/v1",
        "https://localhost/v1",
        "http://localhost/V1",
    ]
    assert len({checked_url(url) for url in apart}) == len(apart)


def test_only_literal_names_are_this_machine():
    assert is_loopback("http://localhost:1/v1")
    assert is_loopback("https://[::1]/v1")
    assert not is_loopback("https://localhost.example.com/v1")
