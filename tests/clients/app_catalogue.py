"""Which agent apps are tried, and how each is told about the server and its model, by its own commands where it has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients.apps import App, Seat, from_npm, from_pip
from tests.clients.dialects import (
    AnthropicMessages,
    GoogleGenerateContent,
    OpenAIChat,
    OpenAIChatWithBridge,
    OpenAIResponses,
)
from tests.clients.model import PLAYBOOK, SERVER_NAME

NO_KEY: Final = "no-key-needed"


async def _connect_claude(seat: Seat) -> Sequence[str]:
    header = f"Authorization: Bearer {seat.table.token}"
    options = ["--transport", "http", "--scope", "user"]
    await seat.set_up("mcp", "add", *options, SERVER_NAME, seat.table.url, "--header", header)
    return [
        "-p",
        seat.prompt,
        "--allowedTools",
        f"mcp__{SERVER_NAME}",
        "--output-format",
        "stream-json",
        "--verbose",
    ]


async def _connect_codex(seat: Seat) -> Sequence[str]:
    config = seat.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        "\n".join(
            [
                'model = "scripted"',
                'model_provider = "scripted"',
                'approval_policy = "never"',
                "check_for_update_on_startup = false",
                "[analytics]",
                "enabled = false",
                "[model_providers.scripted]",
                'name = "scripted"',
                f'base_url = "{seat.model.url}/v1"',
                'wire_api = "responses"',
                "",
            ]
        )
    )
    options = ["--bearer-token-env-var", "ROUNDTABLE_TOKEN"]
    await seat.set_up("mcp", "add", SERVER_NAME, "--url", seat.table.url, *options)
    return [
        "exec",
        "--skip-git-repo-check",
        "--json",
        "--dangerously-bypass-approvals-and-sandbox",
        seat.prompt,
    ]


async def _connect_opencode(seat: Seat) -> Sequence[str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{seat.model.url}/v1", "apiKey": NO_KEY},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    server = {
        "type": "remote",
        "url": seat.table.url,
        "headers": {"Authorization": f"Bearer {seat.table.token}"},
        "oauth": False,
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
        "mcp": {SERVER_NAME: server},
        "permission": "allow",
    }
    _write_json(seat.home / ".config" / "opencode" / "opencode.json", config)
    return ["run", "--format", "json", "--command", seat.prompt]


async def _connect_gemini(seat: Seat) -> Sequence[str]:
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    _write_json(seat.home / ".gemini" / "settings.json", settings)
    await _add_as_gemini_does(seat)
    return [
        "--prompt",
        seat.prompt,
        "--approval-mode",
        "yolo",
        "--model",
        "gemini-2.5-flash",
        "--output-format",
        "json",
    ]


async def _connect_qwen(seat: Seat) -> Sequence[str]:
    settings = {
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    }
    _write_json(seat.home / ".qwen" / "settings.json", settings)
    await _add_as_gemini_does(seat)
    return ["--prompt", seat.prompt, "--approval-mode", "yolo", "--output-format", "json"]


async def _add_as_gemini_does(seat: Seat) -> None:
    options = ["--scope", "user", "--transport", "http", "--trust"]
    header = f"Authorization: Bearer {seat.table.token}"
    await seat.set_up("mcp", "add", *options, "--header", header, SERVER_NAME, seat.table.url)


def _write_json(path: Path, settings: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings, indent=1))


async def _connect_copilot(seat: Seat) -> Sequence[str]:
    header = f"Authorization: Bearer {seat.table.token}"
    await seat.set_up("mcp", "add", "--transport", "http", "--header", header, SERVER_NAME, seat.table.url)
    return ["--prompt", seat.prompt, "--allow-all-tools", "--no-auto-update", "--disable-builtin-mcps"]


async def _connect_agents_library(seat: Seat) -> Sequence[str]:
    return [seat.prompt]


_CLAUDE_ENVIRONMENT = {
    "ANTHROPIC_BASE_URL": "{model}",
    "ANTHROPIC_API_KEY": NO_KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}
APPS = (
    App(
        "claude",
        from_npm("claude", "@anthropic-ai/claude-code", "bin/claude.exe", "install.cjs"),
        AnthropicMessages(),
        _connect_claude,
        _CLAUDE_ENVIRONMENT,
        f"/mcp__{SERVER_NAME}__{PLAYBOOK}",
    ),
    App(
        "claude-2.1.197",  # the last that speaks only the older generation
        from_npm(
            "claude-2.1.197", "@anthropic-ai/claude-code", "bin/claude.exe", "install.cjs", version="@2.1.197"
        ),
        AnthropicMessages(),
        _connect_claude,
        _CLAUDE_ENVIRONMENT,
        f"/mcp__{SERVER_NAME}__{PLAYBOOK}",
    ),
    App("codex", from_npm("codex", "@openai/codex", "bin/codex.js"), OpenAIResponses(), _connect_codex, {}),
    App(
        "opencode",
        from_npm("opencode", "opencode-ai", "bin/opencode.exe", "postinstall.mjs"),
        OpenAIChat(),
        _connect_opencode,
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
        f"{SERVER_NAME}:{PLAYBOOK}",
    ),
    App(
        "gemini",
        from_npm("gemini", "@google/gemini-cli", "bundle/gemini.js"),
        GoogleGenerateContent(),
        _connect_gemini,
        {"GOOGLE_GEMINI_BASE_URL": "{model}", "GEMINI_API_KEY": NO_KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        f"/{PLAYBOOK}",
    ),
    App(
        "qwen",
        from_npm("qwen", "@qwen-code/qwen-code", "cli-entry.js"),
        OpenAIChatWithBridge(),
        _connect_qwen,
        {"OPENAI_BASE_URL": "{model}/v1", "OPENAI_API_KEY": NO_KEY, "OPENAI_MODEL": "scripted"},
        f"/{PLAYBOOK}",
    ),
    App(
        "copilot",
        from_npm("copilot", "@github/copilot", "npm-loader.js"),
        OpenAIChat(),
        _connect_copilot,
        {
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
            "COPILOT_PROVIDER_API_KEY": NO_KEY,
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
    ),
    App(
        "openai-agents",
        from_pip("openai-agents", "openai_agents_client.py"),
        OpenAIResponses(prefixes=("",)),
        _connect_agents_library,
        {
            "OPENAI_BASE_URL": "{model}/v1",
            "OPENAI_API_KEY": NO_KEY,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        },
    ),
)
