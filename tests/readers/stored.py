"""Reads strict JSON and envelopes, and checks the shapes of stored objects, as docs/format.md specifies them."""

import json
import re

import blake3

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HEX = re.compile(r"[0-9a-f]*")
REVISION = re.compile(r"(0|[1-9][0-9]*)-([0-9a-f]{16})")
MAX_DOCUMENT = 1 << 20
MAX_DEPTH = 72


class Refused(Exception):
    """A file violates the format. The message names the file."""

    exit_code = 1


class Unsupported(Refused):
    """The store has another format, or the stack needs a key."""

    exit_code = 3


class Missing(Refused):
    """The store or the stack doesn't exist."""

    exit_code = 2


class Number(str):
    """A JSON number as its text, so that `1.0` and `1` differ."""


def parse(text, where):
    """Returns the value of a JSON text that is given as bytes. Refuses duplicate members and deep nesting."""
    try:
        value = json.loads(
            text.decode("utf-8"),
            parse_int=Number,
            parse_float=Number,
            parse_constant=_not_json,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"{where}: the text isn't strict JSON: {error}") from error
    _check_depth(value, where)
    return value


def _not_json(name):
    raise ValueError(f"{name} isn't JSON")


def _object(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _check_depth(value, where):
    level, depth = [value], 0
    while level:
        level = [
            below
            for one in level
            for below in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
        ]
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise Refused(f"{where}: the value is nested too deeply")


def canonical(value):
    """Returns the canonical JSON of a value."""
    if isinstance(value, dict):
        members = (f"{canonical(str(key))}:{canonical(value[key])}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, Number):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


# Required and optional members of strict objects, as `name=shape`. A shape in capitals is defined here or in
# ALTERNATIVES, a shape in lower case in SIMPLE. `[shape]` is a list of such values.
SHAPES = {
    "NAME": ("name=text target=TARGET nonce=uuid", "tags=object"),
    "MOVEDTO": ("lineage=uuid name=text", ""),
    "META": ("lineage=uuid", ""),
    "HEAD": (
        "lineage=uuid digest-algorithm=text base=BASE epoch=number generation=number name=text policy=text "
        "floor=number nonce=uuid",
        "rev-base=BASE history=HISTORY moving-to=MOVING removed=bool client-lock=CLIENTLOCK key-id=hex keys=KEYS "
        "collection=COLLECTION compactions=[COMPACTION] closed=bool watermark=WATERMARK closed-state=CLOSEDSTATE copied-from=text "
        "tag=digest",
    ),
    "BASE": ("start=number chain=digest", "snapshot=SNAPSHOTREF content=SNAPSHOTREF"),
    "HISTORY": ("", "index=INDEX pages=[PAGE]"),
    "INDEX": ("first=number pages=number digest=digest length=number", ""),
    "HISTORYINDEX": ("nonce=uuid pages=[PAGE]", ""),
    "PAGE": ("first=number revisions=number digest=digest length=number", ""),
    "SNAPSHOTREF": ("slot=number digest=digest length=number", ""),
    "MOVING": ("name=text nonce=uuid", ""),
    "CLIENTLOCK": ("id=text holder=any", "message=text expires=text"),
    "KEYS": ("generation=number since=number files=list recipients=list", "outputs=list names=object succession=list"),
    "COLLECTION": ("base=BASE serial=number since=text", "forgotten=[revision]"),
    "COMPACTION": ("start=number end=number digest=digest length=number", ""),
    "WATERMARK": ("slot=number chain=digest", ""),
    "CLOSEDSTATE": ("slot=number revision=revision updated=text resources=number", ""),
    "FENCE": ("chain=digest holder=any", "previous=PREVIOUS"),
    "PREVIOUS": ("segment=text length=number last-slot=number", ""),
    "HISTORYPAGE": ("nonce=uuid revisions=[DOCUMENT]", ""),
    "DOCUMENT": ("revision=revision slot=number chain=digest made=MADE", ""),
    "UPDATE": (
        "id=uuid kind=text start=text",
        "who=text host=text version=text program=text message=text end=text result=text counts=object "
        "environment=object parent=revision restored=revision moved=MOVED forced=bool",
    ),
    "BEGIN": ("id=uuid op=op target=object", "entry=entry deposes=text tombstone=bool at=text"),
    "END": ("id=uuid outcome=text", "entry=entry reasons=list"),
    "STEP": ("id=uuid change=CHANGE", ""),
    "REFRESH": ("target=object", "entry=entry"),
    "OUTPUTS": ("target=object outputs=object", "sensitive=list"),
    "STACKOUTPUTS": ("values=object", "sensitive=list"),
    "RESET": ("id=uuid snapshot=SNAPSHOTREF cause=CAUSE", "pending=[PENDING]"),
    "IMPORT": ("", "foreign=list"),
    "RESTORE": ("revision=revision", ""),
    "EDIT": ("id=uuid changes=[EDITCHANGE]", ""),
    "PUT": ("target=object entry=entry", ""),
    "RESOLVE": ("id=uuid resolution=RESOLUTION", ""),
    "UPDATE_END": ("serial=number update=UPDATE base=BASE entries=number", "changed=CHANGED log=LOG"),
    "ENTRYCHANGE": ("address=text change=text", "deposed=text uid=uuid from=object properties=list"),
    "LOG": ("digest=digest length=number", ""),
    "DETACHED": ("serial=number snapshot=SNAPSHOTREF entries=number", ""),
    "CHECKPOINT": ("base=BASE", ""),
    "INVALIDATION": ("update=uuid since=text", ""),
    "PEER": ("lineage=uuid name=text", "sealed=bool"),
    "MOVEIN": ("id=uuid from=PEER entries=[entry]", "at=text"),
    "MOVEOUT": ("id=uuid to=PEER entries=[object]", "at=text"),
    "MOVEEND": ("id=uuid outcome=text", ""),
    "PENDING": ("id=uuid op=op target=object", "entry=entry deposes=text tombstone=bool begun=text result=RESULT"),
    "RESULT": ("outcome=text violations=list", "entry=entry"),
    "CONTINUATION": (
        "recorded=number",
        "update=UPDATE current=revision recent=list forgotten=[revision] incoming=[MOVEIN] departed=[MOVEOUT] "
        "uncommitted=bool",
    ),
    "FOREIGN": ("imported=number at=number highest=number", ""),
}

# Values with alternatives, as `name=shape` or `name`. `name=shape` is an object with one member of this name and shape.
# `name` is the name alone, as a text. `?` after a shape also allows null.
ALTERNATIVES = {
    "TARGET": "lineage=uuid removed=uuid moved-to=MOVEDTO",
    "MADE": "update-end=UPDATE_END detached-revision=DETACHED",
    "MOVED": "in=PEER out=PEER",
    "CHANGE": "same=entry replace=object refresh=REFRESH remove-pending-replace=object outputs=OUTPUTS",
    "CHANGED": "listed=[ENTRYCHANGE] many",
    "CAUSE": "import=IMPORT restore=RESTORE edit",
    "EDITCHANGE": "remove=object put=PUT append=entry",
    "RESOLUTION": "not-done done=entry?",
    "RECORD": "update-start=UPDATE begin=BEGIN end=END step=STEP record-plugin=object set-outputs=STACKOUTPUTS "
    "unchanged=[text] reset-base=RESET edit=EDIT resolve=RESOLVE update-end=UPDATE_END detached-revision=DETACHED "
    "forget=revision checkpoint=CHECKPOINT invalidate=INVALIDATION validate=text move-in=MOVEIN move-out=MOVEOUT move-end=MOVEEND",
}

OPS = "same create update delete replace read refresh import discard remove-pending-replace outputs".split()
ENTRY_TYPES = ("leaf", "library-call", "action")

SIMPLE = {
    "any": lambda value: True,
    "text": lambda value: isinstance(value, str) and not isinstance(value, Number),
    "bool": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": lambda value: isinstance(value, Number) and value.isdecimal() and int(value) < 1 << 64,
    "uuid": lambda value: isinstance(value, str) and UUID.fullmatch(value),
    "hex": lambda value: isinstance(value, str) and len(value) == 32 and HEX.fullmatch(value),
    "digest": lambda value: isinstance(value, str) and len(value) == 64 and HEX.fullmatch(value),
    "revision": lambda value: isinstance(value, str) and REVISION.fullmatch(value),
    "op": lambda value: value in OPS,
}


def check(value, shape, where):
    """Returns the value, or raises Refused if the value doesn't have this shape."""
    if shape.startswith("["):
        check(value, "list", where)
        for one in value:
            check(one, shape[1:-1], where)
    elif shape.endswith("?"):
        if value is not None:
            check(value, shape[:-1], where)
    elif shape == "entry":
        _check_entry(value, where)
    elif shape in SIMPLE:
        if not SIMPLE[shape](value):
            raise Refused(f"{where}: the value isn't of type {shape}")
    elif shape in ALTERNATIVES:
        _check_alternative(value, shape, where)
    else:
        _check_members(value, shape, where)
    return value


def _pairs(text):
    """Returns the shape of each name in a list of `name=shape` or `name`; an empty shape for a name alone."""
    return dict((part.split("=") + [""])[:2] for part in text.split())


def _check_members(value, shape, where):
    check(value, "object", where)
    required, optional = map(_pairs, SHAPES[shape])
    for name in required:
        if name not in value:
            raise Refused(f"{where}: the member `{name}` is missing")
    for name, member in value.items():
        if name not in required and name not in optional:
            raise Refused(f"{where}: the member `{name}` is unknown")
        check(member, required.get(name) or optional[name], f"{where}: {name}")


def _check_alternative(value, shape, where):
    name, content = value, None
    if isinstance(value, dict) and len(value) == 1:
        ((name, content),) = value.items()
    known = _pairs(ALTERNATIVES[shape])
    if not isinstance(name, str) or name not in known or bool(known[name]) != isinstance(value, dict):
        raise Refused(f"{where}: the alternative is unknown")
    if known[name]:
        check(content, known[name], f"{where}: {name}")


def _check_entry(value, where):
    check(value, "object", where)
    if not value.get("address") or value.get("type") not in ENTRY_TYPES:
        raise Refused(f"{where}: an entry has no address or an unknown type")


def digest(*parts):
    """Returns the BLAKE3 digest of the concatenated parts in hexadecimal."""
    return blake3.digest(*parts).hex()


def document(data, kind, where, shape=None, most=MAX_DOCUMENT):
    """Returns the body of a document, after checking its envelope and, if given, the shape of the body."""
    if len(data) > most:
        raise Refused(f"{where}: the document is larger than {most} bytes")
    if not data.endswith(b"\n"):
        raise Refused(f"{where}: the document is truncated: it doesn't end with a newline")
    envelope = parse(data[:-1], where)
    if not isinstance(envelope, dict) or set(envelope) != {"digest", "format", "kind", "body"}:
        raise Refused(f"{where}: the file isn't a document in an envelope")
    if envelope["format"] != "2":
        raise Unsupported(f"{where}: format {envelope['format']}; this reader knows format 2")
    if envelope["kind"] != kind:
        raise Refused(f"{where}: the document isn't of kind {kind}")
    # The digest covers the bytes of the body as they are stored. Writers put the body last, after these members.
    start = f'{{"digest":"{envelope["digest"]}","format":2,"kind":"{kind}","body":'.encode()
    body = data[len(start):-2]
    if not data.startswith(start) or digest(kind.encode(), b"\n", body) != envelope["digest"]:
        raise Refused(f"{where}: the digest doesn't match the content")
    return check(envelope["body"], shape, where) if shape else envelope["body"]
