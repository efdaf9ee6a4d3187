#!/usr/bin/env python3
"""Verifies a plaintext stack in a folder and lists its resources, with the Python standard library only.

    state_reader.py [--json] STORE STACK

This program was written from docs/format.md alone, to prove that the page suffices. It takes no lock, so no process may
write to the folder while it runs. It checks every link of the journal, every snapshot and every revision document, and
replays the whole history.

Exit codes: 0 the stack is intact; 1 a file is damaged; 2 the store or stack is missing; 3 the store has another format,
or the stack is sealed.
"""

import sys

sys.dont_write_bytecode = True

import argparse
import os
import re

import blake3
import zstd
from replay import State, without_violations
from stored import (
    REVISION, Missing, Refused, Unsupported, canonical, check, digest, document, parse,
)

HEADER, CHAIN, MAC, SECTOR = 64, 32, 16, 512
MAX_PAYLOAD, MAX_OBJECT, MAX_SEGMENT = 64 << 20, 1 << 30, 8 << 30
MAX_SNAPSHOT, MAX_LOG = 4 << 30, 33 << 20
DATA, FENCE = 1, 2
GUARD, MIN_ZEROS, MIN_FRAME = b"SJF1\x01\x01\x01", 8, HEADER + CHAIN
SEGMENT = re.compile(r"([0-9]{20})-(0|[1-9][0-9]*)\.log")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Header:
    """The header of a frame. `problem` is None, or the reason why the bytes aren't a valid header."""

    def __init__(self, data):
        self.problem, self.total = None, HEADER
        if len(data) < HEADER:
            self.problem = "the file ends within a header"
            return
        if data[:4] != b"SJF1":
            self.problem = "the bytes aren't the begin of a frame"
        elif crc32c(data[:60]) != int.from_bytes(data[60:64], "big"):
            self.problem = "the checksum of the header is wrong"
        elif data[4] != 1 or data[5] not in (DATA, FENCE) or data[6] != 1 or data[7] & 0xFE:
            self.problem = "the version, kind, algorithm or a flag is unknown"
        elif int.from_bytes(data[24:28], "big") > MAX_PAYLOAD:
            self.problem = "the payload is larger than allowed"
        if self.problem:
            return
        self.kind = data[5]
        self.epoch = int.from_bytes(data[8:16], "big")
        self.slot = int.from_bytes(data[16:24], "big")
        self.length = int.from_bytes(data[24:28], "big")
        self.is_tagged = bool(data[7] & 1) or any(data[28:44])
        self.total = HEADER + self.length + CHAIN + (MAC if data[7] & 1 else 0)


class Frame:
    """A frame of the journal. `chain` is the chain after the frame."""

    def __init__(self, header, data, chain):
        self.data, self.chain = data, chain
        self.payload = data[HEADER:HEADER + header.length]
        self.kind, self.epoch, self.slot = header.kind, header.epoch, header.slot
        self.is_tagged, self.total = header.is_tagged, header.total

    def records(self, where):
        if self.kind != DATA:
            return []
        if not self.payload.endswith(b"\n"):
            raise Refused(f"{where}: the last record has no newline")
        lines = self.payload[:-1].split(b"\n")
        return [check(parse(line, where), "RECORD", where) for line in lines]


def read_frame(data, at, chain):
    """Returns the frame at an offset, or the reason (a text) why the bytes aren't the frame that follows this chain."""
    header = Header(data[at:at + HEADER])
    if header.problem:
        return header.problem
    if len(data) - at < header.total:
        return "the frame is longer than the file"
    body = at + HEADER + header.length
    found = data[body:body + CHAIN]
    if blake3.digest(chain, data[at:body]) != found:
        return "the chain is broken: a byte or a frame was changed"
    return Frame(header, data[at:at + header.total], found)


def has_header_after(data, at):
    """Returns whether a valid header of a frame begins after this offset."""
    at = data.find(b"SJF1", at + 1)
    while at >= 0:
        if not Header(data[at:at + HEADER]).problem:
            return True
        at = data.find(b"SJF1", at + 1)
    return False


def guard_after(end):
    """Returns the guard that follows a frame with this end."""
    if 0 < end % SECTOR < MIN_ZEROS:
        return GUARD
    before = SECTOR - end % SECTOR
    return GUARD[:before] if before < MIN_ZEROS else b""


def is_torn(data, at):
    """Returns whether an interrupted write explains the bytes from this offset on, so that the journal ends here."""
    if at == 0 or has_header_after(data, at):
        return False
    rest = data[at:]
    header = Header(rest[:HEADER])
    is_short = len(rest) < HEADER or (not header.problem and len(rest) < header.total)
    if is_short and b"SJF1".startswith(rest[:4]):
        return True
    written = rest.rstrip(b"\0")
    return (guard_after(at).startswith(written) or is_prefix(rest, written, header)
            or has_lost_sector(data, at, header))


def has_unwritten_mac(data, at, frame):
    """Returns whether only the end of the MAC of this frame was lost, which the frame's digest doesn't cover."""
    return (at > 0 and frame.is_tagged and not data[at + frame.total - 1]
            and not has_header_after(data, at) and has_lost_sector(data, at, frame))


def is_prefix(rest, written, header):
    """Returns whether only the first bytes of a data frame were written into preallocated space."""
    if header.problem and len(written) >= HEADER:
        return False
    total = MIN_FRAME if header.problem else header.total
    return (written[:len(GUARD)] == GUARD[:len(written)]
            and len(written) + MIN_ZEROS <= total <= len(rest) - MIN_ZEROS)


def has_lost_sector(data, at, header):
    """Returns whether a sector of the frame at this offset reads as zeros."""
    end = at + max(header.total, MIN_FRAME)
    guard = guard_after(at) if 0 < at % SECTOR < MIN_ZEROS else b""
    start = at + len(guard) if guard and data[at:at + len(guard)] == guard else at
    known_end = min(len(data), end + (len(GUARD) if 0 < end % SECTOR < MIN_ZEROS else 0))
    for sector in range(at // SECTOR, -(-min(end, len(data)) // SECTOR)):
        begin, sector_end = max(start, sector * SECTOR), min(len(data), (sector + 1) * SECTOR)
        if min(sector_end, known_end) - begin >= MIN_ZEROS and not any(data[begin:sector_end]):
            return True
    return False


class Segment:
    """A file of the journal.

    An adopted segment (epoch 0) is a copy of a journal from another store. It begins with a chain instead of a fence.
    """

    def __init__(self, stack, name):
        self.name, self.path = name, os.path.join("journal", name)
        slot, epoch = SEGMENT.fullmatch(name).groups()
        self.slot, self.epoch = int(slot), int(epoch)
        self.where = stack.where(self.path)
        self.data = stack.read(self.path, MAX_SEGMENT)
        self.is_adopted = self.epoch == 0
        self.previous = None
        if self.is_adopted:
            if len(self.data) < CHAIN:
                raise Refused(f"{self.where}: the segment doesn't begin with a chain")
            self.chain = self.data[:CHAIN]
            return
        header = Header(self.data[:HEADER])
        if header.problem or len(self.data) < header.total:
            raise Refused(f"{self.where}: the segment doesn't begin with a fence")
        payload = self.data[HEADER:HEADER + header.length]
        if not payload.endswith(b"\n"):
            raise Refused(f"{self.where}: the fence is truncated")
        fence = check(parse(payload[:-1], self.where), "FENCE", self.where)
        self.chain, self.previous = bytes.fromhex(fence["chain"]), fence.get("previous")

    def frames(self, end):
        """Returns the frames of the segment. `end` is the end that the fence of the next segment names, or None."""
        data = self.data
        if end is not None:
            length = int(end["length"])
            if length > len(data):
                raise Refused(f"{self.where}: the segment was truncated: the next segment names {length} of its bytes")
            data = data[:length]
        at, chain, frames = CHAIN if self.is_adopted else 0, self.chain, []
        while at < len(data):
            frame = read_frame(data, at, chain)
            if isinstance(frame, str):
                if end is None and not self.is_adopted and is_torn(data, at):
                    break
                raise Refused(f"{self.where}: byte {at}: {frame}")
            if end is None and not self.is_adopted and has_unwritten_mac(data, at, frame):
                break
            self._check(frame, at, len(frames))
            frames.append(frame)
            at, chain = at + frame.total, frame.chain
        if end is not None and (not frames or frames[-1].slot != int(end["last-slot"])):
            raise Refused(f"{self.where}: the segment doesn't end at the slot that the next segment names")
        return frames

    def _check(self, frame, at, index):
        if frame.slot != self.slot + index:
            raise Refused(f"{self.where}: byte {at}: slot {frame.slot} is out of order")
        if self.is_adopted:
            return
        if frame.epoch != self.epoch:
            raise Refused(f"{self.where}: byte {at}: the frame has epoch {frame.epoch}, not {self.epoch}")
        if (frame.kind == FENCE) != (index == 0):
            raise Refused(f"{self.where}: byte {at}: the first frame, and only the first, must be a fence")


class Store:
    """The store in a folder."""

    def __init__(self, folder):
        self.folder = folder
        if not os.path.isfile(os.path.join(folder, "format")):
            raise Missing(f"{folder}: no state store is in this folder")
        body = document(self.read("format"), "format", self.where("format"))
        if not isinstance(body, dict) or body.get("layout") != "1":
            raise Unsupported(f"{self.where('format')}: the layout isn't 1")

    def where(self, path):
        return os.path.join(self.folder, path)

    def read(self, path, most=1 << 20):
        where = self.where(path)
        try:
            with open(where, "rb") as file:
                data = file.read(most + 1)
        except FileNotFoundError as error:
            raise Refused(f"{where}: the file is missing") from error
        except OSError as error:
            raise Refused(f"{where}: {error}") from error
        if len(data) > most:
            raise Refused(f"{where}: the file is larger than {most} bytes")
        return data

    def stack(self, name):
        project, slash, stack = name.partition("/")
        if not slash:
            project, stack = "default", name
        if not NAME.fullmatch(project) or not NAME.fullmatch(stack):
            raise Missing(f"{name}: this isn't a valid name of a stack")
        folded = f"{project}/{stack}".lower()
        path = os.path.join("names", *f"{folded}.json".split("/"))
        where = self.where(path)
        if not os.path.isfile(where):
            raise Missing(f"stack {name}: the stack doesn't exist: {where} is missing")
        pointer = document(self.read(path), "name", where, "NAME")
        if pointer["name"].lower() != folded:
            raise Refused(f"{where}: the file is for another name, {pointer['name']}")
        if not isinstance(pointer["target"], dict) or "lineage" not in pointer["target"]:
            raise Missing(f"stack {name}: the stack was removed or renamed")
        return Stack(self, pointer)


class Stack:
    """A stack of the store, as its name pointer and its head describe it."""

    def __init__(self, store, pointer):
        self.store, self.lineage = store, pointer["target"]["lineage"]
        self.folder = os.path.join("stacks", self.lineage)
        meta = document(self.read("meta.json"), "meta", self.where("meta.json"), "META")
        self.head = head = document(self.read("head.json"), "head", self.where("head.json"), "HEAD")
        for body, name in ((meta, "meta.json"), (head, "head.json")):
            if body["lineage"] != self.lineage:
                raise Refused(f"{self.where(name)}: the file belongs to another stack")
        is_name = head["name"].lower() == pointer["name"].lower()
        is_target = head.get("moving-to", {}).get("nonce") == pointer["nonce"]
        if head.get("removed") or not (is_name or is_target):
            raise Missing(f"stack {pointer['name']}: the head has another name: the stack was removed or renamed")
        if head["digest-algorithm"] != "blake3":
            raise Unsupported(f"{self.where('head.json')}: the digest algorithm isn't blake3")
        if "key-id" in head or head["policy"] != "plaintext":
            raise Unsupported(f"stack {head['name']}: the stack is sealed, and this reader has no keys")
        self.snapshots = {}

    def where(self, path):
        return self.store.where(os.path.join(self.folder, path))

    def read(self, path, most=1 << 20):
        return self.store.read(os.path.join(self.folder, path), most)

    def list(self, folder):
        try:
            return sorted(os.listdir(self.where(folder)))
        except FileNotFoundError:
            return []

    def genesis(self):
        return blake3.digest(b"state journal 1\n", bytes.fromhex(self.lineage.replace("-", "")))

    def beginning(self):
        """Returns the base from which the whole history can be replayed."""
        if "collection" in self.head:
            return self.head["collection"]["base"]
        return {"start": "0", "chain": self.genesis().hex()}

    def bases(self):
        collection = [self.head["collection"]["base"]] if "collection" in self.head else []
        return [self.head["base"]] + [self.head[name] for name in ("rev-base",) if name in self.head] + collection

    def anchors(self):
        """Returns the positions that the head names: pairs of a slot and the chain before that slot."""
        known = [(int(base["start"]), base["chain"]) for base in self.bases()]
        if "watermark" in self.head:
            known.append((int(self.head["watermark"]["slot"]) + 1, self.head["watermark"]["chain"]))
        return known

    def journal(self):
        """Checks every link of the journal, and returns all frames from the beginning of the history on."""
        if not os.path.isdir(self.where("journal")):
            raise Refused(f"{self.where('journal')}: the folder is missing")
        names = [name for name in self.list("journal") if SEGMENT.fullmatch(name)]
        names.sort(key=lambda name: (int(name[21:-4]), name))
        begin, chain = int(self.beginning()["start"]), self.genesis()
        frames, next_slot = [], 0
        self._check_anchor(0, chain, self.where("head.json"))
        if names:
            if int(names[-1][21:-4]) > int(self.head["epoch"]):
                raise Refused(f"{self.where('journal/' + names[-1])}: the epoch is later than the epoch of the head")
            steps = self._back(names[-1], begin)
            next_slot, chain = steps[-1][0].slot, steps[-1][0].chain
            if next_slot == 0 and chain != self.genesis():
                raise Refused(f"{steps[-1][0].where}: the segment isn't the begin of this stack's journal")
            for segment, end in reversed(steps):
                if segment.chain != chain:
                    raise Refused(f"{segment.where}: the fence doesn't continue the segment before")
                self._check_anchor(next_slot, chain, segment.where)
                for frame in segment.frames(end):
                    next_slot, chain = frame.slot + 1, frame.chain
                    self._check_anchor(next_slot, chain, segment.where)
                    frames.append((frame, f"{segment.where}: slot {frame.slot}"))
        reached = max(slot for slot, _ in self.anchors())
        if next_slot < reached:
            raise Refused(
                f"{self.where('journal')}: the journal ends before slot {next_slot}, but the head names slot {reached}"
            )
        self._check_compaction(frames)
        frames = [(frame, where) for frame, where in frames if frame.slot >= begin]
        if any(frame.is_tagged for frame, _ in frames):
            raise Unsupported(f"stack {self.head['name']}: the journal has sealed frames")
        return frames

    def _check_compaction(self, frames):
        """Refuses a compaction that has the digest in the head, but holds other frames than the segments."""
        named = self.head.get("compactions", [])
        if len(named) != 1 or int(named[0]["start"]) != int(self.head["base"]["start"]):
            return
        start, end, length = (int(named[0][member]) for member in ("start", "end", "length"))
        where = self.where(f"journal/{start:020}.frames")
        try:
            with open(where, "rb") as file:
                data = file.read(length)
        except OSError:
            return
        if len(data) != length or digest(data) != named[0]["digest"]:
            return
        if data != b"".join(frame.data for frame, _ in frames if start <= frame.slot < end):
            raise Refused(f"{where}: the compaction doesn't hold the frames of the segments")

    def _check_anchor(self, slot, chain, where):
        """Refuses `chain`, the chain before a slot, if the head names another chain for that slot."""
        for known, expected in self.anchors():
            if known == slot and chain.hex() != expected:
                raise Refused(f"{where}: the chain before slot {slot} isn't the one in the head")

    def _back(self, name, begin):
        """Returns segments from the last one back to the segment that contains the slot `begin`.

        Each segment comes with the end that the fence of the next segment names, or None for the last segment.
        """
        steps, end = [], None
        while True:
            segment = Segment(self, name)
            steps.append((segment, end))
            previous = segment.previous
            if previous is None:
                if segment.slot != 0 and not segment.is_adopted:
                    raise Refused(f"{segment.where}: the fence must name the segment before")
                return steps
            match = SEGMENT.fullmatch(previous["segment"])
            last = int(previous["last-slot"])
            if not match or last + 1 != segment.slot or int(match[1]) > last or int(match[2]) > segment.epoch:
                raise Refused(f"{segment.where}: the fence doesn't follow the segment that it names")
            if segment.slot <= begin:
                return steps
            name, end = previous["segment"], previous

    def snapshot(self, reference):
        """Reads a stored snapshot, and checks it against its reference."""
        expected, length = reference["digest"], int(reference["length"])
        if expected not in self.snapshots:
            path = f"snapshots/{int(reference['slot']):020}-{expected[:16]}.json.zst"
            where = self.where(path)
            if length > MAX_SNAPSHOT:
                raise Refused(f"{where}: the snapshot is larger than allowed")
            try:
                data = zstd.decompress(self.read(path, MAX_OBJECT), length)
            except zstd.ZstdError as error:
                raise Refused(f"{where}: the snapshot can't be decompressed: {error}") from error
            if len(data) != length or digest(data) != expected:
                raise Refused(f"{where}: the content doesn't match the digest")
            self.snapshots[expected] = self._parsed(data, where)
        return self.snapshots[expected]

    def _parsed(self, data, where):
        snapshot = check(parse(data, where), "object", where)
        if snapshot.get("format-version") != "1":
            raise Unsupported(f"{where}: the format version isn't 1")
        for name in ("stack", "deployment-id", "generated-at", "entries"):
            if name not in snapshot:
                raise Refused(f"{where}: the member `{name}` is missing")
        check(snapshot["entries"] or [], "[entry]", where)
        check(snapshot.get("pending-operations", []), "[PENDING]", where)
        if "continuation" in snapshot:
            check(snapshot["continuation"], "CONTINUATION", where)
        return snapshot

    def state_at(self, base):
        """Returns the state at a base: that of its snapshot, or the empty state if it has none. The content may be in
        another snapshot."""
        if "snapshot" not in base:
            if base["start"] != "0" or "content" in base:
                raise Refused(f"{self.where('head.json')}: a base after slot 0 has no snapshot")
            return State(self.lineage)
        snapshot = self.snapshot(base["snapshot"])
        if "content" in base:
            if snapshot["entries"] or snapshot.get("extensions"):
                raise Refused(f"{self.where('head.json')}: a base has content in both of its snapshots")
            content = self.snapshot(base["content"])
            snapshot = {**snapshot, "entries": content["entries"]}
            if "extensions" in content:
                snapshot["extensions"] = content["extensions"]
        return State.of_snapshot(self.lineage, snapshot, self.where("snapshots"))


class Verified:
    """A stack whose whole history was read and replayed."""

    def __init__(self, stack):
        self.stack = stack
        self.documents = self._documents()
        self.frames = stack.journal()
        self.made, checkpoints = {}, {}
        records = {}
        for frame, where in self.frames:
            records[frame.slot] = frame.records(where)
            for record in records[frame.slot]:
                if "checkpoint" in record:
                    base = record["checkpoint"]["base"]
                    checkpoints[int(base["start"])] = base
                self._note(frame, record)
        checkpoints[int(stack.head["base"]["start"])] = stack.head["base"]
        base = stack.beginning()
        state = stack.state_at(base)
        for frame, where in self.frames:
            if frame.slot in checkpoints and frame.slot > int(base["start"]):
                self._compare(checkpoints[frame.slot], state)
            for record in records[frame.slot]:
                state.apply(record, stack.snapshot, where)
            state.settle(frame.chain.hex())
        tip = stack.state_at(stack.head["base"])
        for frame, where in self.frames:
            if frame.slot >= int(stack.head["base"]["start"]):
                for record in records[frame.slot]:
                    tip.apply(record, stack.snapshot, where)
                tip.settle(frame.chain.hex())
        if tip.comparable() != state.comparable():
            raise Refused(f"{stack.where('head.json')}: the base and the whole journal lead to different states")
        self.state = tip
        self._check_documents()

    def _note(self, frame, record):
        """Remembers the revision that a record makes, if it makes one."""
        ((kind, content),) = record.items()
        if kind in ("update-end", "detached-revision"):
            revision = f"{content['serial']}-{frame.chain.hex()[:16]}"
            self.made[revision] = (frame, {kind: content})

    def _compare(self, base, state):
        """Refuses a checkpoint that differs from the replayed state."""
        if "snapshot" in base and self.stack.state_at(base).comparable() != state.comparable():
            where = self.stack.where("snapshots")
            raise Refused(f"{where}: slot {base['start']}: the checkpoint differs from the state of the journal")

    def _documents(self):
        """Returns the documents on the pages that the head and the index name, each with the file that contains it.

        Other files in `updates/` are ignored.
        """
        stack, documents = self.stack, []
        history = stack.head.get("history", {})
        pages = history.get("pages", [])
        if "index" in history:
            where, data = self._named(history["index"], "index")
            indexed = document(data, "history-index", where, "HISTORYINDEX", MAX_OBJECT)["pages"]
            if len(indexed) != int(history["index"]["pages"]):
                raise Refused(f"{where}: the number of pages doesn't match the number in the head")
            pages = indexed + pages
        for page in pages:
            where, data = self._named(page, "page")
            revisions = document(data, "history", where, "HISTORYPAGE", MAX_OBJECT)["revisions"]
            if len(revisions) != int(page["revisions"]):
                raise Refused(f"{where}: the number of revisions doesn't match the number in the head")
            documents.extend((where, one) for one in revisions)
        return documents

    def _named(self, reference, ending):
        """Returns path and bytes of an object in `updates/`. The bytes must have the digest of the reference."""
        path = f"updates/{int(reference['first']):020}-{reference['digest'][:16]}.{ending}"
        where, data = self.stack.where(path), self.stack.read(path, MAX_OBJECT)
        if len(data) != int(reference["length"]) or digest(data) != reference["digest"]:
            raise Refused(f"{where}: the content doesn't match the digest in the head")
        return where, data

    def _check_documents(self):
        """Checks that documents and journal describe the same revisions."""
        stack, listed, last = self.stack, set(), -1
        floor = int(stack.head.get("collection", {}).get("serial", 0))
        for where, body in self.documents:
            revision, serial = body["revision"], int(REVISION.fullmatch(body["revision"])[1])
            if serial <= last or body["chain"][:16] != revision.partition("-")[2]:
                raise Refused(f"{where}: revision {revision} is out of order or has another chain")
            last = serial
            if revision in self.state.forgotten or serial < floor:
                continue
            frame, made = self.made.get(revision, (None, None))
            if frame is None or (int(body["slot"]), body["chain"]) != (frame.slot, frame.chain.hex()):
                raise Refused(f"{where}: the journal has no revision {revision}")
            if canonical(body["made"]) != canonical(made):
                raise Refused(f"{where}: revision {revision}: the document doesn't match the journal")
            listed.add(revision)
        self.revisions = []
        for revision, (frame, made) in self.made.items():
            serial = int(REVISION.fullmatch(revision)[1])
            if revision in self.state.forgotten or serial < floor:
                continue
            if revision not in listed and frame.slot < int(stack.head["base"]["start"]):
                raise Refused(f"{stack.where('head.json')}: revision {revision} is on no page of the history")
            if "detached-revision" in made:
                stack.snapshot(made["detached-revision"]["snapshot"])
            self.revisions.append(revision)
        self._check_logs()

    def _check_logs(self):
        stored = self.stack.list("logs")
        for revision, (_frame, made) in self.made.items():
            log = made.get("update-end", {}).get("log")
            name = f"{int(REVISION.fullmatch(revision)[1]):020}.jsonl.zst"
            # A log that a revision names may be missing after a crash. A log that no revision names is ignored.
            if log and name in stored:
                where, data = self.stack.where("logs/" + name), self.stack.read("logs/" + name, MAX_OBJECT)
                if len(data) != int(log["length"]) or digest(data) != log["digest"]:
                    raise Refused(f"{where}: the content doesn't match the digest in the revision")
                try:
                    lines = zstd.decompress(data, MAX_LOG)
                except zstd.ZstdError as error:
                    raise Refused(f"{where}: the log can't be decompressed: {error}") from error
                for line in lines.splitlines():
                    check(parse(line, where), "object", where)


def main(arguments):
    parser = argparse.ArgumentParser(description="Verify a plaintext stack in a folder and list its resources.")
    parser.add_argument("--json", action="store_true", help="print each resource as canonical JSON")
    parser.add_argument("store", help="folder of the store")
    parser.add_argument("stack", help="name of the stack: project/stack")
    options = parser.parse_args(arguments)
    try:
        verified = Verified(Store(options.store).stack(options.stack))
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return refused.exit_code
    state = verified.state
    for entry in state.entries():
        print(canonical(entry) if options.json else described(entry))
    for pending in state.pending:
        target = pending["target"]["address"]
        text = f"pending {pending['op']} of {target}"
        print(canonical({"pending": without_violations(pending)}) if options.json else text)
    count = len(state.entries())
    print(
        f"{len(verified.frames)} frames, {len(verified.stack.snapshots)} snapshots, {len(verified.revisions)} revisions, "
        f"{count} {'resource' if count == 1 else 'resources'}; current revision {state.current or 'none'}",
        file=sys.stderr,
    )
    return 0


def described(entry):
    words = [entry["address"], entry.get("kind") or entry.get("library-type", "")]
    if "id" in entry:
        words.append(f"id={entry['id']}")
    if "deposed" in entry:
        words.append(f"(deposed {entry['deposed']})")
    return " ".join(words)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.exit(main(sys.argv[1:]))
