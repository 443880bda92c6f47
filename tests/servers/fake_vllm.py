"""Stands in for a vLLM server: answers /health and chat, has a child that ignores SIGTERM, and misbehaves as told.

FAKE says how: `ready`; `refuses` every question; `dies` at once; `dies_asked`, at the first question; `hangs` before it
listens; `stubborn`: ignores SIGTERM too.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = os.environ.get("FAKE", "ready")
KEY = os.environ.get("VLLM_API_KEY")
CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('engine up'); time.sleep(600)"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, {})

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sys.stderr.write(f"asked {question['model']} {question['max_tokens']} {question['logprobs']}\n")
        if MODE == "dies_asked":
            sys.stderr.write("RuntimeError: the engine fell over\n")
            os._exit(1)
        if self.headers["Authorization"] != (f"Bearer {KEY}" if KEY else None):
            self.answer(401, {"error": "Unauthorized"})
        else:
            self.answer(*((400, {"error": "no pictures here"}) if MODE == "refuses" else (200, {})))

    def answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", CHILD])
    if MODE == "dies":
        sys.exit("ValueError: No common block size for 16.")
    while MODE == "hangs":
        time.sleep(1)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
