"""A page in a headless Chromium, by the DevTools protocol."""
import base64
import contextlib
import functools
import http.server
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class DevTools:
    """A WebSocket to one page."""

    def __init__(self, url):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), timeout=60)
        self.input = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        if b" 101 " not in self.input.readline():
            raise RuntimeError("Chromium refuses the WebSocket")
        while self.input.readline() not in (b"\r\n", b""):
            pass
        self.next, self.errors = 0, []

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = bytes([0x81]) + (bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + struct.pack(">H", size) if size < 65536
                                else bytes([0xFF]) + struct.pack(">Q", size))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def exactly(self, n):
        data = self.input.read(n)
        if len(data) != n:
            raise RuntimeError("Chromium ended")
        return data

    def receive(self):
        message = b""
        while True:
            first, second = self.exactly(2)
            size = second & 127
            if size > 125:
                size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
            message += self.exactly(size)
            if first & 0x80:
                return json.loads(message)

    def call(self, method, **params):
        self.next += 1
        self.send(json.dumps({"id": self.next, "method": method, "params": params}))
        while True:
            message = self.receive()
            kind, about = message.get("method"), message.get("params", {})
            if kind == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(about["exceptionDetails"])[:500])
            if kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(about["args"])[:500])
            if kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
            if message.get("id") == self.next:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:300]}")
        return result["result"].get("value")

    def picture(self, path, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.3)
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]))


def wait(what, condition, seconds):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise RuntimeError(f"after {seconds} s still not: {what}")
        time.sleep(0.2)


def need(true, what):
    if not true:
        raise RuntimeError(what)


def page_of(home):
    def devtools():
        try:
            return open(f"{home}/DevToolsActivePort").read().split("\n")[0]
        except OSError:
            return None
    at = wait("Chromium runs", devtools, 60)

    def target():
        with urllib.request.urlopen(f"http://127.0.0.1:{at}/json", timeout=30) as answer:
            return next((t for t in json.load(answer) if t["type"] == "page"), None)
    return DevTools(wait("Chromium has a page", target, 30)["webSocketDebuggerUrl"])


@contextlib.contextmanager
def opened(folder):
    """A page of a Chromium of its own, and the address at which the folder is served."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        raise RuntimeError("there is no Chromium: apt-get install chromium")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = subprocess.Popen([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                    "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page = page_of(home)
            for domain in ("Runtime", "Log", "Page"):
                page.call(f"{domain}.enable")
            yield page, f"http://127.0.0.1:{server.server_port}"
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
