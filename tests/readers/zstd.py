"""Decompresses Zstandard frames (RFC 8878) with the Python standard library only. Dictionaries aren't supported.

Section numbers in comments are those of the RFC.
"""

MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK_MAX = 128 << 10

# Base value and number of extra bits of each code (3.1.1.3.2.1.1).
LITERAL_LENGTHS = [(code, 0) for code in range(16)] + [
    (16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2), (32, 3), (40, 3), (48, 4), (64, 6), (128, 7), (256, 8),
    (512, 9), (1024, 10), (2048, 11), (4096, 12), (8192, 13), (16384, 14), (32768, 15), (65536, 16),
]
MATCH_LENGTHS = [(code + 3, 0) for code in range(32)] + [
    (35, 1), (37, 1), (39, 1), (41, 1), (43, 2), (47, 2), (51, 3), (59, 3), (67, 4), (83, 4), (99, 5), (131, 7),
    (259, 8), (515, 9), (1027, 10), (2051, 11), (4099, 12), (8195, 13), (16387, 14), (32771, 15), (65539, 16),
]

# Accuracy and frequencies of the predefined distributions (3.1.1.3.2.2).
LITERAL_DEFAULT = 6, [4, 3] + [2] * 11 + [1] * 3 + [2] * 9 + [3, 2] + [1] * 5 + [-1] * 4
MATCH_DEFAULT = 6, [1, 4, 3] + [2] * 6 + [1] * 37 + [-1] * 7
OFFSET_DEFAULT = 5, [1] * 6 + [2] * 3 + [1] * 15 + [-1] * 5


class ZstdError(Exception):
    """The bytes aren't Zstandard frames, or decompress to more than allowed."""


def decompress(data, limit):
    """Returns the content of all frames. Raises ZstdError if it has more than `limit` bytes."""
    out = bytearray()
    try:
        at = 0
        while at < len(data):
            at = _Frame(data, at, out, limit).end
    except (IndexError, ValueError, KeyError) as error:
        raise ZstdError("the data is damaged or truncated") from error
    return bytes(out)


class _Frame:
    """Decompresses the frame at an offset and appends its content to `out`. `end` is the offset after the frame."""

    def __init__(self, data, at, out, limit):
        self.data, self.out, self.limit = data, out, limit
        self.start = len(out)
        self.offsets = [1, 4, 8]
        self.huffman = None
        self.tables = [None, None, None]
        at, size, has_checksum = self._header(at)
        last = False
        while not last:
            head = int.from_bytes(self._take(at, 3), "little")
            at += 3
            last, kind, length = head & 1, head >> 1 & 3, head >> 3
            if length > BLOCK_MAX and kind != 1:
                raise ZstdError("a block is too large")
            if kind == 0:
                out += self._take(at, length)
                at += length
            elif kind == 1:
                self._require_room(length)
                out += self._take(at, 1) * length
                at += 1
            elif kind == 2:
                self._block(self._take(at, length))
                at += length
            else:
                raise ZstdError("the type of a block is reserved")
            self._require_room(0)
        if size is not None and len(out) - self.start != size:
            raise ZstdError("the content doesn't have the size in the header")
        if has_checksum:
            # The checksum isn't compared, because the caller checks a digest of the content.
            self._take(at, 4)
            at += 4
        self.end = at

    def _take(self, at, length):
        piece = self.data[at:at + length]
        if len(piece) != length:
            raise ZstdError("the data is truncated")
        return piece

    def _require_room(self, more):
        """Refuses content that would be larger than the limit with `more` additional bytes."""
        if len(self.out) + more > self.limit:
            raise ZstdError("the content is larger than allowed")

    def _header(self, at):
        if self._take(at, 4) != MAGIC:
            raise ZstdError("the data isn't a Zstandard frame")
        descriptor = self._take(at + 4, 1)[0]
        at += 5
        single, reserved = descriptor >> 5 & 1, descriptor >> 3 & 1
        if reserved or descriptor & 3:
            raise ZstdError("the frame sets a reserved bit or needs a dictionary")
        if not single:
            self._take(at, 1)
            at += 1
        width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
        size = int.from_bytes(self._take(at, width), "little") if width else None
        if width == 2:
            size += 256
        return at + width, size, descriptor >> 2 & 1

    def _block(self, block):
        literals, at = self._literals(block)
        first = block[at]
        if first < 128:
            count, at = first, at + 1
        elif first < 255:
            count, at = (first - 128 << 8) + block[at + 1], at + 2
        else:
            count, at = block[at + 1] + (block[at + 2] << 8) + 0x7F00, at + 3
        if count == 0:
            if at != len(block):
                raise ZstdError("a block has bytes after its content")
            self.out += literals
            return
        self._sequences(block, at, count, literals)

    # 3.1.1.3.1
    def _literals(self, block):
        kind, form = block[0] & 3, block[0] >> 2 & 3
        if kind < 2:
            width, shift = {0: (1, 3), 2: (1, 3), 1: (2, 4), 3: (3, 4)}[form]
            size = int.from_bytes(block[:width], "little") >> shift
            self._require_room(size)
            if kind == 1:
                return bytes([block[width]]) * size, width + 1
            if width + size > len(block):
                raise ZstdError("the data is truncated")
            return block[width:width + size], width + size
        width, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
        head = int.from_bytes(block[:width], "little") >> 4
        size, packed = head & (1 << bits) - 1, head >> bits
        end = width + packed
        if end > len(block):
            raise ZstdError("the data is truncated")
        at = width
        if kind == 2:
            self.huffman, at = _huffman_table(block, at)
        if self.huffman is None:
            raise ZstdError("a block reuses a Huffman table, but no earlier block has one")
        if form == 0:
            literals = _huffman_stream(self.huffman, block[at:end])
        else:
            lengths = [int.from_bytes(block[at + i:at + i + 2], "little") for i in (0, 2, 4)]
            at += 6
            literals = bytearray()
            for length in lengths:
                literals += _huffman_stream(self.huffman, block[at:at + length])
                at += length
            literals += _huffman_stream(self.huffman, block[at:end])
        if len(literals) != size:
            raise ZstdError("the literals don't have the size in their header")
        return literals, end

    # 3.1.1.3.2 and 3.1.1.4
    def _sequences(self, block, at, count, literals):
        modes = block[at]
        at += 1
        if modes & 3:
            raise ZstdError("reserved bits are set")
        kinds = ((LITERAL_DEFAULT, 9, 35), (OFFSET_DEFAULT, 8, 31), (MATCH_DEFAULT, 9, 52))
        for index, (default, accuracy, largest) in enumerate(kinds):
            at = self._table(block, at, index, modes >> (6 - 2 * index) & 3, default, accuracy, largest)
        of_literals, of_offsets, of_matches = self.tables
        bits = _Backward(block[at:])
        literal_state = bits.read(of_literals.accuracy)
        offset_state = bits.read(of_offsets.accuracy)
        match_state = bits.read(of_matches.accuracy)
        out, used = self.out, 0
        for index in range(count):
            code = of_offsets.symbols[offset_state]
            offset = (1 << code) + bits.read(code)
            base, extra = MATCH_LENGTHS[of_matches.symbols[match_state]]
            match = base + bits.read(extra)
            base, extra = LITERAL_LENGTHS[of_literals.symbols[literal_state]]
            length = base + bits.read(extra)
            if index < count - 1:
                literal_state = of_literals.next(literal_state, bits)
                match_state = of_matches.next(match_state, bits)
                offset_state = of_offsets.next(offset_state, bits)
            if bits.left < 0 or used + length > len(literals):
                raise ZstdError("the data is truncated")
            self._require_room(length + match)
            out += literals[used:used + length]
            used += length
            self._copy(self._offset(offset, length), match)
        if bits.left != 0:
            raise ZstdError("bits follow the last sequence")
        out += literals[used:]

    def _table(self, block, at, index, mode, default, accuracy, largest):
        if mode == 0:
            self.tables[index] = _Fse(*default)
        elif mode == 1:
            if block[at] > largest:
                raise ZstdError("a code is unknown")
            self.tables[index] = _Fse.constant(block[at])
            at += 1
        elif mode == 2:
            self.tables[index], at = _Fse.read(block, at, accuracy, largest)
        elif self.tables[index] is None:
            raise ZstdError("a block reuses a table, but no earlier block has one")
        return at

    def _offset(self, value, length):
        history = self.offsets
        if value > 3:
            offset = value - 3
            self.offsets = [offset, history[0], history[1]]
            return offset
        index = value - 1 + (length == 0)
        if index == 0:
            return history[0]
        offset = history[index] if index < 3 else history[0] - 1
        self.offsets = [offset, history[0], history[2] if index == 1 else history[1]]
        return offset

    def _copy(self, offset, length):
        out = self.out
        if not 0 < offset <= len(out) - self.start:
            raise ZstdError("a match begins before the start of the frame")
        from_ = len(out) - offset
        if offset >= length:
            out += out[from_:from_ + length]
            return
        piece = bytes(out[from_:])
        out += (piece * (length // offset + 1))[:length]


class _Backward:
    """The bits of a stream that is read backwards from its end."""

    def __init__(self, data):
        if not data or not data[-1]:
            raise ZstdError("a stream has no end mark")
        self.left = 8 * (len(data) - 1) + data[-1].bit_length() - 1
        # Up to 64 bits before the start read as zeros.
        self.data = bytes(8) + bytes(data)

    def read(self, count):
        self.left -= count
        at = self.left + 64
        if at < 0:
            raise ZstdError("the data is truncated")
        return (int.from_bytes(self.data[at >> 3:(at >> 3) + 8], "little") >> (at & 7)) & ((1 << count) - 1)


class _Fse:
    """A decoding table of finite state entropy (4.1)."""

    def __init__(self, accuracy, frequencies):
        size = 1 << accuracy
        symbols, described, high = [0] * size, {}, size
        for symbol, frequency in enumerate(frequencies):
            if frequency == -1:
                high -= 1
                symbols[high], described[symbol] = symbol, 1
        step, at = (size >> 1) + (size >> 3) + 3, 0
        for symbol, frequency in enumerate(frequencies):
            if frequency <= 0:
                continue
            described[symbol] = frequency
            for _ in range(frequency):
                symbols[at] = symbol
                at = (at + step) & (size - 1)
                while at >= high:
                    at = (at + step) & (size - 1)
        self.accuracy, self.symbols, self.bits, self.bases = accuracy, symbols, [], []
        for symbol in symbols:
            value = described[symbol]
            described[symbol] += 1
            count = accuracy - (value.bit_length() - 1)
            self.bits.append(count)
            self.bases.append((value << count) - size)

    @classmethod
    def constant(cls, symbol):
        table = cls.__new__(cls)
        table.accuracy, table.symbols, table.bits, table.bases = 0, [symbol], [0], [0]
        return table

    @classmethod
    def read(cls, data, at, most, largest):
        bits = int.from_bytes(data[at:at + 512], "little")
        accuracy = (bits & 15) + 5
        if accuracy > most:
            raise ZstdError("the accuracy of a table is too high")
        used, left, frequencies = 4, 1 << accuracy, []
        while left > 0:
            width = (left + 1).bit_length()
            value = bits >> used & (1 << width) - 1
            used += width
            low, threshold = (1 << width - 1) - 1, (1 << width) - 1 - (left + 1)
            if value & low < threshold:
                used -= 1
                value &= low
            elif value > low:
                value -= threshold
            frequencies.append(value - 1)
            left -= abs(value - 1)
            if value == 1:
                repeat = 3
                while repeat == 3:
                    repeat = bits >> used & 3
                    used += 2
                    frequencies += [0] * repeat
            if len(frequencies) > largest + 1:
                raise ZstdError("a table has too many symbols")
        end = at + (used + 7) // 8
        if left or end > len(data):
            raise ZstdError("the frequencies of a table have a wrong sum")
        return cls(accuracy, frequencies), end

    def next(self, state, bits):
        return self.bases[state] + bits.read(self.bits[state])


def _huffman_table(data, at):
    """Reads a Huffman table (4.2.1).

    Returns the table and the offset after it. The table is a pair: the longest code length in bits, and by code the
    symbol and the length in bits.
    """
    head = data[at]
    at += 1
    if head >= 128:
        count = head - 127
        raw = data[at:at + (count + 1) // 2]
        weights = [nibble for byte in raw for nibble in (byte >> 4, byte & 15)][:count]
        end = at + (count + 1) // 2
        if len(weights) != count:
            raise ZstdError("the data is truncated")
    else:
        end = at + head
        table, at = _Fse.read(data[:end], at, 6, 255)
        weights = _weights(table, _Backward(data[at:end]))
    total = sum(1 << weight >> 1 for weight in weights)
    if total == 0 or max(weights) > 11 or len(weights) > 255:
        raise ZstdError("the weights of a Huffman table are invalid")
    most = total.bit_length()
    rest = (1 << most) - total
    if rest & rest - 1 or most > 11:
        raise ZstdError("the weights of a Huffman table have a wrong sum")
    weights.append(rest.bit_length())
    codes = []
    for weight in range(1, most + 1):
        for symbol, of_symbol in enumerate(weights):
            if of_symbol == weight:
                codes += [(symbol, most + 1 - weight)] * (1 << weight - 1)
    return (most, codes), end


def _weights(table, bits):
    states = [bits.read(table.accuracy), bits.read(table.accuracy)]
    weights, turn = [], 0
    while len(weights) <= 255:
        weights.append(table.symbols[states[turn]])
        states[turn] = table.next(states[turn], bits)
        turn ^= 1
        if bits.left < 0:
            weights.append(table.symbols[states[turn]])
            break
    return weights


def _huffman_stream(table, data):
    most, codes = table
    bits, out, mask = _Backward(data), bytearray(), (1 << most) - 1
    state = bits.read(most)
    while bits.left > -most:
        symbol, length = codes[state]
        out.append(symbol)
        state = (state << length & mask) | bits.read(length)
    if bits.left != -most:
        raise ZstdError("bits follow the literals")
    return out
