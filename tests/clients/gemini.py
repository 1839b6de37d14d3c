"""The real Gemini CLI: its scripted server, its tools, and its command line.

It is a folder of JavaScript, which node runs. `GOOGLE_GEMINI_BASE_URL` sets another server,
and with a key in its environment it does not require an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .drive import Running, client_environment, home_for, write_json
from .install import program
from .servers import Call, ModelServer, Place, Turn

#: Without a model's name, the client first asks one model which other model to use.
MODEL = "gemini-2.5-pro"

SETTINGS = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


def write_file(path: object, content: str) -> Call:
    return Call("write_file", {"file_path": str(path), "content": content})


def replace(path: object, old: str, new: str) -> Call:
    words = {"file_path": str(path), "old_string": old, "new_string": new}
    return Call("replace", {**words, "instruction": f"Say {new} in place of {old}."})


def run_shell(command: str) -> Call:
    return Call("run_shell_command", {"command": command, "description": "Run a command"})


class GeminiServer(ModelServer):
    """Gemini CLI's server: Google's generateContent, as events or as one answer."""

    def follow(self, body: dict[str, Any]) -> tuple[str, int, tuple[str, ...]]:
        place = Place()
        for message in body.get("contents", ()):
            calls = 0
            for part in message["parts"]:
                if "functionCall" in part:
                    calls += 1
                    place.called(part["functionCall"].get("id", ""))
                elif "functionResponse" in part:
                    said = part["functionResponse"]["response"]
                    place.told(said.get("output") or said.get("error") or said)
                elif "text" in part and message["role"] == "user":
                    place.prompt(part["text"])
            if message["role"] == "model" and not calls:
                place.spoke()
        return place.where(bool(body.get("tools")))

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return ":streamGenerateContent" in path

    def stream(self, said: Turn, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "", self.whole(said, number)

    def whole(self, said: Turn, number: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": said.text}] if said.text else []
        for call in said.calls:
            what = {"id": self.call_id(number), "name": call.tool, "args": call.input}
            parts.append({"functionCall": what})
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        counted = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {
            "candidates": [{**candidate, "index": 0}],
            "usageMetadata": counted,
            "modelVersion": MODEL,
            "responseId": f"response_{next(self._numbers)}",
        }


def start_gemini(
    repo: Path,
    prompt: str,
    server: GeminiServer,
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> Running:
    """Start `gemini -p`, which asks for no permission; `before` are the words that start it."""
    home = home_for(repo, home, "gemini-home")
    write_json(home / ".gemini" / "settings.json", SETTINGS)
    words = ["node", str(program("gemini")), "--yolo", "--model", MODEL]
    words += ["--output-format", "stream-json", "--prompt", prompt]
    made = {
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GEMINI_API_KEY": "dummy",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return Running([*before, *words], repo, home, client_environment(home, made, env))
