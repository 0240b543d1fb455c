"""A Hub on 127.0.0.1, as much of one as ``huggingface_hub`` asks for: models, up and down."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

import pytest

COMMIT = "0" * 40


class FakeHub:
    """``models``: files of every model, by name. ``asked``: requests that came."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, inside the block."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            hub.asked.append(f"{self.command} {self.path}")

        def _missing(self, what: str) -> None:
            self._say({"error": f"{what} not found"}, 404, {"X-Error-Code": f"{what}NotFound"})

        def do_GET(self) -> None:
            parts = urlparse(self.path).path.strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                files = hub.models.get("/".join(parts[2:4]))
                if files is None:
                    self._say(
                        {"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"}
                    )
                elif "tree" in parts:
                    self._say([_entry(path, data) for path, data in files.items()])
                else:
                    siblings = [{"rfilename": path} for path in files]
                    name = "/".join(parts[2:4])
                    self._say({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})
            else:
                data = hub.models.get("/".join(parts[:2]), {}).get("/".join(parts[4:]))
                if data is None:
                    self._missing("Entry")
                else:
                    self._send(data, 200, {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT})

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            address = f"http://{self.headers['Host']}"
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = (
                    f"{asked['organization']}/{asked['name']}"
                    if "organization" in asked
                    else asked["name"]
                )
                hub.models.setdefault(name, {})
                self._say({"url": f"{address}/{name}", "id": name})
            elif self.path == "/api/validate-yaml":
                self._say({"errors": [], "warnings": []})
            elif "/preupload/" in self.path:
                files = [
                    {
                        "path": each["path"],
                        "uploadMode": "regular",
                        "shouldIgnore": False,
                        "oid": None,
                    }
                    for each in json.loads(body)["files"]
                ]
                self._say({"files": files})
            else:
                name = "/".join(self.path.split("/")[3:5])
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        value = line["value"]
                        hub.models[name][value["path"]] = base64.b64decode(value["content"])
                url = f"{address}/{name}/commit/{COMMIT}"
                self._say({"success": True, "commitUrl": url, "commitOid": COMMIT})

        def _say(
            self, answer: Any, status: int = 200, headers: dict[str, str] | None = None
        ) -> None:
            self._send(json.dumps(answer).encode(), status, headers or {})

        def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _entry(path: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(data), "oid": _oid(data)}


@pytest.fixture
def hub(monkeypatch, tmp_path_factory):
    """A Hub that has nothing yet; what is downloaded is kept apart, as the libraries read it."""
    found = FakeHub()
    constants = pytest.importorskip("huggingface_hub.constants", reason="the Hub takes it")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
    with found.serving() as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield found
