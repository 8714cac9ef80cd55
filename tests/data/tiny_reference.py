#!/usr/bin/python3
"""An independent forward pass of llama, qwen2 and qwen3 models, for the tiny test models.

Written from the papers and the Hugging Face definitions, not from the engine: RMSNorm, rotary
positions (interleaved pairs for llama files, as their q and k rows are permuted; halves, "NEOX", for
qwen), grouped-query attention, SwiGLU. Rope scalings: linear (positions divided by the factor), YaRN
(arXiv 2309.00071, with beta 32 and 1 and both cos and sin times 0.1 ln(factor) + 1), llama3 (the
frequencies divided by rope_freqs.weight). Sliding window w: position i sees j with i - w < j <= i.
Weights are the float32 values of the file; everything after them is float64, so that the result is
the true value to well below any float32 engine's error.

  tiny_reference.py MODEL.gguf                prints the results of one model
  tiny_reference.py --writer WRITE_TINY_MODEL  prints tests/data/tiny_expected.json (all models)

Format of tiny_expected.json:
  tokens       the 48 token ids that every model is run on (no begin token is added)
  logit_ids    the token ids whose raw logits are recorded
  models       a list of
    name       names the test
    arguments  options of write_tiny_model, by name without the dashes; a flag has the value true.
               They are the fields of TinyModelOptions with - for _, but `untied`: true stands for
               tied_embedding = false. Types by name ("F32"). What is left out has its default.
    positions  a list of
      position   0 to 47; the logits are those after this token
      logits     raw logits of logit_ids
      top        the eight likeliest next tokens: [token id, log-probability], likeliest first
    greedy     16 tokens of greedy decoding behind the 48 (end tokens do not end it)
    greedy_margin  the smallest distance between the best and the second best logit on the way
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_numpy import Gguf  # noqa: E402

TOKENS = [4 + (37 * i * i + 101 * i + 13) % 288 for i in range(48)]
LOGIT_IDS = [0, 1, 3, 4, 36, 100, 200, 255, 290, 299, 319]
POSITIONS = [0, 1, 7, 15, 16, 31, 47]
NUM_GREEDY = 16

F32 = {"weight-type": "F32"}
MODELS = {
    "llama": {**F32},
    "llama_untied_all_heads": {**F32, "untied": True, "num-kv-heads": 4, "seed": 2},
    "llama_one_kv_head_bias": {**F32, "num-kv-heads": 1, "qkv-bias": True, "head-dim": 32, "seed": 3},
    "llama_linear": {**F32, "rope-scaling": "linear"},
    "llama_yarn": {**F32, "rope-scaling": "yarn"},
    "llama_rope_freqs": {**F32, "rope-freqs": True, "rope-scale-factor": 8},
    "llama_sliding_window": {**F32, "sliding-window": 12},
    "qwen2": {**F32, "architecture": "qwen2"},
    "qwen2_yarn_untied": {**F32, "architecture": "qwen2", "rope-scaling": "yarn", "untied": True,
                          "num-layers": 3, "seed": 4},
    "qwen3": {**F32, "architecture": "qwen3", "head-dim": 32},
    "qwen3_untied_odd_sizes": {**F32, "architecture": "qwen3", "untied": True, "num-heads": 6,
                               "num-kv-heads": 3, "head-dim": 24, "feed-forward-length": 100,
                               "embedding-length": 72, "vocab-size": 333, "seed": 5},
    "llama_q8_0": {"weight-type": "Q8_0", "embedding-type": "Q8_0", "untied": True},
}


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def rotary_frequencies(file, architecture, width):
    """(angle per position of each pair [width / 2], factor of cos and sin)"""
    get = lambda key, default=None: file.metadata.get(f"{architecture}.rope.{key}", default)
    base = float(get("freq_base", 10000.0))
    pair = np.arange(width // 2)
    frequencies = base ** (-2.0 * pair / width)
    if "rope_freqs.weight" in file.tensors:
        frequencies = frequencies / file.tensor("rope_freqs.weight").astype(np.float64)
    kind = get("scaling.type", "none")
    factor = float(get("scaling.factor", 1.0))
    if kind == "linear":
        return frequencies / factor, 1.0
    if kind != "yarn":
        return frequencies, 1.0
    original = float(get("scaling.original_context_length"))
    # The pair whose wave turns `rotations` times over the original context (equation 17 solved for d).
    correction = lambda rotations: (width * np.log(original / (rotations * 2 * np.pi))
                                    / (2 * np.log(base)))
    low = max(np.floor(correction(32.0)), 0)
    high = min(np.ceil(correction(1.0)), width - 1)
    ramp = np.clip((pair - low) / max(high - low, 0.001), 0, 1)
    scaled = frequencies * (1 - ramp) + frequencies / factor * ramp
    return scaled, 0.1 * np.log(factor) + 1.0


def rotate(x, frequencies, factor, interleaved):
    """x [tokens, heads, width]"""
    angles = np.arange(x.shape[0])[:, None, None] * frequencies
    cos, sin = np.cos(angles) * factor, np.sin(angles) * factor
    half = x.shape[-1] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (first * cos - second * sin, first * sin + second * cos)
    if interleaved:
        return np.stack(turned, axis=-1).reshape(x.shape)
    return np.concatenate(turned, axis=-1)


class Reference:
    def __init__(self, path):
        self.file = Gguf(path)
        self.architecture = self.file.metadata["general.architecture"]
        self.weights = {}
        self.heads = self.get("attention.head_count")
        self.kv_heads = self.get("attention.head_count_kv", self.heads)
        self.width = self.get("attention.key_length", self.get("embedding_length") // self.heads)
        self.epsilon = self.get("attention.layer_norm_rms_epsilon")
        self.rope = rotary_frequencies(self.file, self.architecture, self.width)

    def get(self, key, default=None):
        return self.file.metadata.get(f"{self.architecture}.{key}", default)

    def weight(self, name):
        if name not in self.weights and name in self.file.tensors:
            self.weights[name] = self.file.tensor(name).astype(np.float64)
        return self.weights.get(name)

    def project(self, x, name):
        bias = self.weight(name + ".bias")
        out = x @ self.weight(name + ".weight").T
        return out if bias is None else out + bias

    def attention(self, x, block):
        tokens = x.shape[0]
        q = self.project(x, block + "attn_q").reshape(tokens, self.heads, self.width)
        k = self.project(x, block + "attn_k").reshape(tokens, self.kv_heads, self.width)
        v = self.project(x, block + "attn_v").reshape(tokens, self.kv_heads, self.width)
        if self.architecture == "qwen3":
            q = rms_norm(q, self.weight(block + "attn_q_norm.weight"), self.epsilon)
            k = rms_norm(k, self.weight(block + "attn_k_norm.weight"), self.epsilon)
        interleaved = self.architecture == "llama"
        q, k = rotate(q, *self.rope, interleaved), rotate(k, *self.rope, interleaved)
        k, v = (np.repeat(t, self.heads // self.kv_heads, axis=1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.width)
        i, j = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
        visible = j <= i
        window = self.get("attention.sliding_window", 0)
        if window > 0:
            visible &= j > i - window
        scores = np.where(visible, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", shares, v).reshape(tokens, -1)
        return self.project(mixed, block + "attn_output")

    def feed_forward(self, x, block):
        gate = self.project(x, block + "ffn_gate")
        up = self.project(x, block + "ffn_up")
        return self.project(gate / (1 + np.exp(-gate)) * up, block + "ffn_down")

    def logits(self, tokens):
        """[tokens, vocabulary]"""
        x = self.weight("token_embd.weight")[tokens]
        for layer in range(self.get("block_count")):
            block = f"blk.{layer}."
            norm = self.weight(block + "attn_norm.weight")
            x = x + self.attention(rms_norm(x, norm, self.epsilon), block)
            norm = self.weight(block + "ffn_norm.weight")
            x = x + self.feed_forward(rms_norm(x, norm, self.epsilon), block)
        x = rms_norm(x, self.weight("output_norm.weight"), self.epsilon)
        output = self.weight("output.weight")
        return x @ (self.weight("token_embd.weight") if output is None else output).T


def greedy(model, tokens, count):
    tokens, margin = list(tokens), np.inf
    for _ in range(count):
        last = model.logits(tokens)[-1]
        second, first = np.sort(last)[-2:]
        margin = min(margin, first - second)
        tokens.append(int(np.argmax(last)))
    return tokens[-count:], margin


def results(path):
    model = Reference(path)
    logits = model.logits(TOKENS)
    positions = []
    for position in POSITIONS:
        row = logits[position]
        log_softmax = row - row.max() - np.log(np.sum(np.exp(row - row.max())))
        best = np.argsort(-row, kind="stable")[:8]
        positions.append({"position": position,
                          "logits": [round(float(row[i]), 6) for i in LOGIT_IDS],
                          "top": [[int(i), round(float(log_softmax[i]), 6)] for i in best]})
    ids, margin = greedy(model, TOKENS, NUM_GREEDY)
    return {"positions": positions, "greedy": ids, "greedy_margin": round(float(margin), 6)}


def all_results(writer):
    models = []
    for name, arguments in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.gguf")
            command = [writer, "--out", path]
            for option, value in arguments.items():
                command += [f"--{option}"] if value is True else [f"--{option}", str(value)]
            subprocess.run(command, check=True)
            models.append({"name": name, "arguments": arguments, **results(path)})
    return {"tokens": TOKENS, "logit_ids": LOGIT_IDS, "models": models}


def dump(value):
    """JSON with one line per position, so that a changed value shows as one line."""
    text = json.dumps(value)
    return text.replace('{"position"', '\n{"position"').replace('{"name"', '\n{"name"') + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--writer", help="the program write_tiny_model")
    options = parser.parse_args()
    if (options.model is None) == (options.writer is None):
        parser.error("give a model or --writer")
    value = all_results(options.writer) if options.writer else results(options.model)
    sys.stdout.write(dump(value))


if __name__ == "__main__":
    main()
