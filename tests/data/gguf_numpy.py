"""GGUF files read with numpy alone: metadata, tensors, and the value of every weight.

Written from the format descriptions and without a look at src/gguf, which it is there to check.
Weights come as float32, computed in the order that ggml's reference code uses.
"""

import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# number: (name, elements of a block, bytes of a block)
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
         6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
         11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
         14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2)}


class Gguf:
    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.position = 0
        assert bytes(self.data[:4]) == b"GGUF"
        self.position = 4
        version, num_tensors, num_entries = self._unpack("IQQ")
        assert version in (2, 3)
        self.metadata = {}
        for _ in range(num_entries):
            key = self._string()
            self.metadata[key] = self._value(self._unpack("I")[0])
        self.tensors = {}
        for _ in range(num_tensors):
            name = self._string()
            shape = self._unpack("Q" * self._unpack("I")[0])
            kind, offset = self._unpack("IQ")
            self.tensors[name] = (shape, kind, offset)
        alignment = self.metadata.get("general.alignment", 32)
        self.start = -(-self.position // alignment) * alignment

    def _unpack(self, form):
        size = struct.calcsize("<" + form)
        values = struct.unpack("<" + form, self.data[self.position:self.position + size].tobytes())
        self.position += size
        return values

    def _string(self):
        length = self._unpack("Q")[0]
        self.position += length
        return self.data[self.position - length:self.position].tobytes().decode("utf-8", "replace")

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            kind, count = self._unpack("IQ")
            return [self._value(kind) for _ in range(count)]
        return self._unpack(SCALARS[kind])[0]

    def raw_blocks(self, name, first=0, count=None):
        """(type name, uint8 [blocks, block bytes])"""
        shape, kind, offset = self.tensors[name]
        type_name, elements, size = TYPES[kind]
        blocks = int(np.prod(shape)) // elements
        last = blocks if count is None else first + count
        begin = self.start + offset
        return type_name, np.array(self.data[begin + first * size:begin + last * size]).reshape(-1, size)

    def tensor(self, name):
        """float32 [rows, columns], or [columns]"""
        shape = self.tensors[name][0]
        return dequantize(*self.raw_blocks(name)).reshape(tuple(reversed(shape)))


def _half(blocks, at):
    return np.ascontiguousarray(blocks[:, at:at + 2]).view(np.float16).astype(np.float32)


def _nibbles(quants):
    """[n, 16] -> [n, 32]: low halves first."""
    return np.concatenate([quants & 15, quants >> 4], axis=1).astype(np.int32)


def _fifth_bits(blocks, at):
    word = np.ascontiguousarray(blocks[:, at:at + 4]).view("<u4")
    return (((word >> np.arange(32, dtype=np.uint32)) & 1) << 4).astype(np.int32)


def _six_bit_pairs(packed):
    """The scales and minima of Q4_K and Q5_K: two [n, 8] from [n, 12]."""
    top, middle, tail = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([top & 63, (tail & 15) | ((top >> 6) << 4)], axis=1)
    minima = np.concatenate([middle & 63, (tail >> 4) | ((middle >> 6) << 4)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _bit_pairs(quants):
    """[n, 64] -> [n, 256]: 32 bytes give 128 elements, bit pair after bit pair."""
    parts = [(quants[:, half:half + 32] >> shift) & 3 for half in (0, 32) for shift in (0, 2, 4, 6)]
    return np.concatenate(parts, axis=1).astype(np.int32)


def _scaled(d, scales, width, quants):
    step = np.repeat(d * scales, width, axis=1)
    return step * quants.astype(np.float32)


def _q2_k(b):
    d, dmin = _half(b, 80), _half(b, 82)
    scales, minima = (b[:, :16] & 15).astype(np.float32), (b[:, :16] >> 4).astype(np.float32)
    return _scaled(d, scales, 16, _bit_pairs(b[:, 16:80])) - np.repeat(dmin * minima, 16, axis=1)


def _q3_k(b):
    d = _half(b, 108)
    low = np.concatenate([b[:, 96:104] & 15, b[:, 96:104] >> 4], axis=1).astype(np.int32)
    high = np.concatenate([(b[:, 104:108] >> s) & 3 for s in (0, 2, 4, 6)], axis=1).astype(np.int32)
    scales = ((low | (high << 4)) - 32).astype(np.float32)
    third = np.concatenate([(b[:, :32] >> bit) & 1 for bit in range(8)], axis=1).astype(np.int32)
    return _scaled(d, scales, 16, _bit_pairs(b[:, 32:96]) - 4 * (1 - third))


def _runs_of_64(quants):
    """[n, 128] -> [n, 256]: per 32 bytes the low halves, then the high ones."""
    return np.concatenate([part for at in range(0, 128, 32)
                           for part in (quants[:, at:at + 32] & 15, quants[:, at:at + 32] >> 4)],
                          axis=1).astype(np.int32)


def _q4_k(b):
    scales, minima = _six_bit_pairs(b[:, 4:16])
    return (_scaled(_half(b, 0), scales, 32, _runs_of_64(b[:, 16:144]))
            - np.repeat(_half(b, 2) * minima, 32, axis=1))


def _q5_k(b):
    scales, minima = _six_bit_pairs(b[:, 4:16])
    high = np.concatenate([(b[:, 16:48] >> bit) & 1 for bit in range(8)], axis=1).astype(np.int32)
    return (_scaled(_half(b, 0), scales, 32, _runs_of_64(b[:, 48:176]) | (high << 4))
            - np.repeat(_half(b, 2) * minima, 32, axis=1))


def _q6_k(b):
    parts = []
    for half in (0, 1):
        low = b[:, 64 * half:64 * half + 64]
        high = b[:, 128 + 32 * half:160 + 32 * half]
        for run, nibble in enumerate((low[:, :32] & 15, low[:, 32:] & 15, low[:, :32] >> 4, low[:, 32:] >> 4)):
            parts.append(nibble | (((high >> (2 * run)) & 3) << 4))
    quants = np.concatenate(parts, axis=1).astype(np.int32) - 32
    return _scaled(_half(b, 208), b[:, 192:208].view(np.int8).astype(np.float32), 16, quants)


def dequantize(kind, b):
    """uint8 [blocks, block bytes] -> float32 [blocks, block elements]"""
    def scaled(quants, d):
        return quants.astype(np.float32) * d

    decoders = {
        "F32": lambda: b.view("<f4"),
        "F16": lambda: b.view("<f2").astype(np.float32),
        "BF16": lambda: (b.view("<u2").astype(np.uint32) << 16).view(np.float32),
        "Q4_0": lambda: scaled(_nibbles(b[:, 2:]) - 8, _half(b, 0)),
        "Q4_1": lambda: scaled(_nibbles(b[:, 4:]), _half(b, 0)) + _half(b, 2),
        "Q5_0": lambda: scaled((_nibbles(b[:, 6:]) | _fifth_bits(b, 2)) - 16, _half(b, 0)),
        "Q5_1": lambda: scaled(_nibbles(b[:, 8:]) | _fifth_bits(b, 4), _half(b, 0)) + _half(b, 2),
        "Q8_0": lambda: scaled(np.ascontiguousarray(b[:, 2:]).view(np.int8), _half(b, 0)),
        "Q2_K": lambda: _q2_k(b), "Q3_K": lambda: _q3_k(b), "Q4_K": lambda: _q4_k(b),
        "Q5_K": lambda: _q5_k(b), "Q6_K": lambda: _q6_k(b),
    }
    return decoders[kind]()
