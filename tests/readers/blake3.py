"""BLAKE3 (hash mode) with the Python standard library only.

A pure Python loop over 32-bit words is slow. Therefore one big integer contains the same word of many chunks, one word
in each 64-bit lane, and an addition, XOR or rotation works on all chunks at once. A sum of words is below 2^34, so no
lane overflows into the next one.
"""

import sys
from array import array

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)
CHUNK, BLOCK = 1024, 64
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8

# Number of chunks that are compressed together. It is high enough to hide the cost of the interpreter, and low enough
# for the CPU's cache.
GROUP = 2048


def digest(*parts):
    """Returns the digest (32 bytes) of the concatenated parts."""
    data = b"".join(parts)
    count = max(1, -(-len(data) // CHUNK))
    last = data[(count - 1) * CHUNK:]
    if count == 1:
        return _bytes(_chunk(last, 0, ROOT))[0]
    values = []
    for first in range(0, count - 1, GROUP):
        values += _full_chunks(data, first, min(GROUP, count - 1 - first))
    values += _bytes(_chunk(last, count - 1, 0))
    while len(values) > 1:
        values = _parents(values)
    return values[0]


def _compress(state, block, counter, length, flags, lanes):
    """Compresses one block in each lane. Returns the words of the new chaining values.

    `counter` is the number of the chunk as two words, the low one first.
    """
    ones = _ones(lanes)
    mask = 0xFFFFFFFF * ones
    low, high = counter
    v = list(state) + [word * ones for word in IV[:4]] + [low, high, length * ones, flags * ones]
    for step in range(7):
        for index, (a, b, c, d) in enumerate(MIXED):
            v[a] = (v[a] + v[b] + block[2 * index]) & mask
            x = v[d] ^ v[a]
            v[d] = ((x >> 16) | (x << 16)) & mask
            v[c] = (v[c] + v[d]) & mask
            x = v[b] ^ v[c]
            v[b] = ((x >> 12) | (x << 20)) & mask
            v[a] = (v[a] + v[b] + block[2 * index + 1]) & mask
            x = v[d] ^ v[a]
            v[d] = ((x >> 8) | (x << 24)) & mask
            v[c] = (v[c] + v[d]) & mask
            x = v[b] ^ v[c]
            v[b] = ((x >> 7) | (x << 25)) & mask
        if step < 6:
            block = [block[source] for source in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def _chunk(data, number, root):
    """Returns the chaining value of a single chunk. `root` is the flag ROOT if this is the only chunk, else 0."""
    blocks = [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
    state = list(IV)
    for index, block in enumerate(blocks):
        flags = CHUNK_START if index == 0 else 0
        if index == len(blocks) - 1:
            flags |= CHUNK_END | root
        words = list(_words(block.ljust(BLOCK, b"\0")))
        state = _compress(state, words, (number & 0xFFFFFFFF, number >> 32), len(block), flags, 1)
    return state


def _full_chunks(data, first, count):
    """Returns the chaining values of `count` full chunks, beginning with the chunk number `first`."""
    words = _words(data[first * CHUNK:(first + count) * CHUNK])
    state = [word * _ones(count) for word in IV]
    numbers = range(first, first + count)
    counter = _lanes(n & 0xFFFFFFFF for n in numbers), _lanes(n >> 32 for n in numbers)
    for index in range(CHUNK // BLOCK):
        block = [_lanes(words[index * 16 + word::CHUNK // 4]) for word in range(16)]
        flags = {0: CHUNK_START, CHUNK // BLOCK - 1: CHUNK_END}.get(index, 0)
        state = _compress(state, block, counter, BLOCK, flags, count)
    return _bytes(state, count)


def _parents(values):
    """Returns the next level of the tree: the parent of each pair of values, and an odd last value unchanged."""
    pairs = len(values) // 2
    words = _words(b"".join(values[:2 * pairs]))
    block = [_lanes(words[word::16]) for word in range(16)]
    flags = PARENT | (ROOT if len(values) == 2 else 0)
    state = [word * _ones(pairs) for word in IV]
    return _bytes(_compress(state, block, (0, 0), BLOCK, flags, pairs), pairs) + values[2 * pairs:]


def _ones(lanes):
    """Returns the integer with the value 1 in each lane."""
    return ((1 << 64 * lanes) - 1) // 0xFFFFFFFFFFFFFFFF


def _words(data):
    """Returns the 32-bit words of bytes in little-endian order."""
    words = array("I", bytes(data))
    if words.itemsize != 4:
        raise SystemExit("this Python has no 32-bit array")
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _lanes(words):
    """Returns the integer that contains one word in each lane."""
    lanes = array("Q", words)
    if sys.byteorder == "big":
        lanes.byteswap()
    return int.from_bytes(lanes.tobytes(), "little")


def _bytes(state, lanes=1):
    """Returns the chaining value of each lane as bytes."""
    columns = [word.to_bytes(8 * lanes, "little") for word in state]
    return [b"".join(column[8 * at:8 * at + 4] for column in columns) for at in range(lanes)]
