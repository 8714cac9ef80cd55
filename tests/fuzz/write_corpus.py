#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets to tests/fuzz/corpus/<target>/, the same bytes every time.

They are committed; this file says what is in them and writes them again when a format grows.
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
SCALARS = {UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?",
           UINT64: "Q", INT64: "q", FLOAT64: "d"}
F32, F16 = 0, 1
# number: (elements of a block, bytes of a block)
TENSOR_TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
                10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2)}


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def value(kind, content):
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        element, elements = content
        return struct.pack("<IQ", element, len(elements)) + b"".join(value(element, one) for one in elements)
    return struct.pack("<" + SCALARS[kind], content)


def gguf(entries, tensors, version=3, alignment=32):
    """entries: (key, kind, content); tensors: (name, dimensions, type number, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, kind, content in entries:
        out += text(key) + struct.pack("<I", kind) + value(kind, content)
    data = b""
    for name, dimensions, kind, content in tensors:
        out += text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, len(data))
        data += content + bytes(-len(content) % alignment)
    return out + bytes(-len(out) % alignment) + data


def weights(name, columns, rows, kind):
    """Small multiples of a power of two, another pattern for every name."""
    step = 3 + sum(name.encode()) % 11
    numbers = [((step * i) % 17 - 8) / 16 for i in range(columns * rows)]
    block_elements, block_bytes = TENSOR_TYPES[kind]
    if kind in (F32, F16):
        content = struct.pack("<%d%s" % (len(numbers), "fe"[kind]), *numbers)
    else:  # a scale of 2^-6 (f16) in front, then bits
        blocks = columns * rows // block_elements
        content = b"".join(struct.pack("<e", 2.0**-6) + bytes((step * i + j) % 251 for j in range(block_bytes - 2))
                           for i in range(blocks))
    return (name, [columns, rows] if rows > 1 else [columns], kind, content)


def byte_vocabulary():
    """Letters as byte-level BPE spells them, two merges, an end token."""
    tokens = ["a", "b", "c", "\u0120", "ab", "\u0120ab", "<|endoftext|>", "[PAD7]"]
    return [("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "gpt-2"),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
            ("tokenizer.ggml.token_type", ARRAY, (INT32, [1] * 6 + [3, 5])),
            ("tokenizer.ggml.merges", ARRAY, (STRING, ["a b", "\u0120 ab"])),
            ("tokenizer.ggml.eos_token_id", UINT32, 6)]


def model(architecture, width, kind, extra):
    entries = [("general.architecture", STRING, architecture)]
    for name, number in (("block_count", 1), ("context_length", 16), ("embedding_length", width),
                         ("feed_forward_length", width), ("attention.head_count", 1)):
        entries.append((f"{architecture}.{name}", UINT32, number))
    entries.append((f"{architecture}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5))
    entries += [(f"{architecture}.{name}", what, number) for name, what, number in extra]
    tensors = [weights("token_embd.weight", width, 8, kind), weights("output_norm.weight", width, 1, F32)]
    for name in ("attn_norm", "ffn_norm"):
        tensors.append(weights(f"blk.0.{name}.weight", width, 1, F32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors.append(weights(f"blk.0.{name}.weight", width, width, kind))
    if architecture == "qwen2":
        for name in ("attn_q", "attn_k", "attn_v"):
            tensors.append(weights(f"blk.0.{name}.bias", width, 1, F32))
    return gguf(entries + byte_vocabulary(), tensors)


def every_value():
    entries = [("general.alignment", UINT32, 64), ("nested", ARRAY, (ARRAY, [(UINT8, [1, 2]), (STRING, ["x", ""])]))]
    for kind in SCALARS:
        entries.append((f"one.{kind}", kind, True if kind == BOOL else 7))
        entries.append((f"many.{kind}", ARRAY, (kind, [True, False] if kind == BOOL else [0, 1, 2])))
    return gguf(entries, [], version=2, alignment=64)


GGUF = {
    "llama_f16": model("llama", 8, F16, [("rope.scaling.type", STRING, "yarn"), ("rope.scaling.factor", FLOAT32, 4),
                                         ("attention.sliding_window", UINT32, 4)]),
    "qwen2_q4_0": model("qwen2", 32, 2, [("rope.freq_base", FLOAT32, 1e6), ("attention.head_count_kv", UINT32, 1)]),
    "every_value": every_value(),
    "every_tensor_type": gguf([], [weights(f"t{kind}", TENSOR_TYPES[kind][0], 1, kind) for kind in TENSOR_TYPES]),
}
# First byte: 2 x the vocabulary (seven byte-level ones, then SentencePiece), plus 1 for damage.
TEXTS = ["Hello, it's the 12345th day in <|im_end|>", "  \n\n  def f(x):\r\n\treturn x\u00a0\u2029",
         "\U0001F642\u200d\U0001F642 \u4e2d\u6587 e\u0301 don't WE'LL", "<|im_start|>user\nthe</s><s> \u2581x<0x41>"]
TOKENIZER = {f"text{i}": bytes([2 * i]) + TEXTS[i % len(TEXTS)].encode() for i in range(8)}
TOKENIZER["not_utf8"] = b"\x02the \xc0\xaf\xed\xa0\x80\xff\xf0\x9f in"
TOKENIZER["damage"] = bytes([3, 0, 80, 1, 4, 0, 255])
TOKENIZER["damage_sentence_piece"] = bytes([15, 0, 40, 9, 20, 1, 0])

CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
GUARDED = ("{%- if messages[0].role != 'user' -%}{{ raise_exception('user first') }}{%- endif -%}{{ bos_token }}"
           "{%- for m in messages if loop.index < 9 -%}{{ m | tojson }}{%- endfor -%}{{ eos_token }}{# end #}")


def conversation(*texts):
    return b"\xff".join(one if isinstance(one, bytes) else one.encode() for one in texts) + b"\xff"


TEMPLATE = {
    "built_in": conversation("s", "Be brief.", "u", "Hi", "a", "Hello", "u", "Bye"),
    "built_in_not_utf8": conversation("u", b"\xc3 \xf0\x9f", "tool", ""),
    "chatml": b"\xfe" + conversation(CHATML, "u", "Hi", "a", "Hello <|im_end|>"),
    "guarded": b"\xfe" + conversation(GUARDED, "a", "x"),
    "syntax_error": b"\xfe" + conversation("{% for x in %}{{", "u", "Hi"),
    "unknown_filter": b"\xfe" + conversation("{{ messages[0].content | nope }}", "u", "Hi"),
}



def suffix_store(*runs):
    """Earlier outputs; the target makes the checksum fit."""
    out = b"TAHMSUFX" + struct.pack("<IIQQQ", 1, 0, 7, len(runs), sum(map(len, runs)))
    return out + b"".join(struct.pack(f"<I{len(run)}I", len(run), *run) for run in runs) + bytes(8)


def datastore(*chunks):
    """Each chunk: documents. Suffixes sorted with the separator above every id."""
    separator, arrays, rows = 0xFFFFFF, b"", []

    def append(numbers):
        nonlocal arrays
        offset = 64 + len(arrays)
        arrays += struct.pack(f"<{len(numbers)}I", *numbers)
        arrays += bytes(-len(arrays) % 64)
        return offset

    for documents in chunks:
        entries = [token for document in documents for token in (*document, separator)]
        suffixes = sorted((i for i, token in enumerate(entries) if token != separator), key=lambda i: entries[i:])
        rows.append((append(entries), len(entries), append(suffixes), len(suffixes)))
    documents = [document for chunk in chunks for document in chunk]
    header = struct.pack("<8sIIQQQQQQ", b"TAHMINDS", 1, 64, 7, sum(map(len, documents)), len(documents),
                         64 + len(arrays), len(rows), 0)
    return header + arrays + b"".join(struct.pack("<4Q", *row) for row in rows)


STORES = {
    "suffix_store": b"\x00" + suffix_store([1, 2, 3, 1, 2, 4], [5], [1, 2, 3, 60, 63]),
    "suffix_store_empty": b"\x00" + suffix_store(),
    "datastore": b"\x01" + datastore([[1, 2, 3, 1, 2, 4], [1, 2, 3]], [[2, 3, 5, 63]]),
    "datastore_one_chunk": b"\x01" + datastore([[1, 2, 1, 2, 1, 2, 1, 2, 0]]),
}

for target, seeds in (("fuzz_gguf", GGUF), ("fuzz_tokenizer", TOKENIZER), ("fuzz_chat_template", TEMPLATE),
                      ("fuzz_draft_stores", STORES)):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (folder / name).write_bytes(content)
