"""The state of a stack, and the effect of each record: the section "Applying records" of docs/format.md."""

from stored import Number, Refused, canonical

# The kinds of updates that run a program. Their start clears the plugins of the manifest, and their end sets its time
# and version.
DRIVEN = ("update", "refresh", "destroy")

# The operations that remove an entry, and all operations that have a begin record.
REMOVALS = ("delete", "discard")
BEGUN = ("create", "update", "delete", "read", "import", "discard")

# The records after which the entries may not be those of the current revision any more.
CHANGING = ("end", "step", "unchanged", "reset-base", "edit", "resolve", "move-out", "move-end")

# Number of mutations whose outcome a state remembers.
WINDOW = 1024
SNAPSHOT_MEMBERS = (
    "format-version stack deployment-id lineage serial program manifest generated-at pending-operations invalidated "
    "entries outputs sensitive-outputs foreign-serials extensions continuation"
).split()


class Broken(Exception):
    """A record or a result violates a rule."""


def key_of(entry):
    """Returns the key of an entry or target: its address, and its deposed key or None."""
    return entry["address"], entry.get("deposed")


def with_members(entry, /, **changes):
    """Returns a copy of an entry with changed members.

    A member whose new value is None, False or an empty list is removed. `_` in a keyword means `-` in the member name.
    """
    entry = dict(entry)
    for name, value in changes.items():
        name = name.replace("_", "-")
        if value in (None, False, []):
            entry.pop(name, None)
        else:
            entry[name] = value
    return entry


def number(value):
    """Returns an integer as a JSON number."""
    return Number(str(value))


class State:
    """The state of a stack.

    `recorded` contains the entries that the open update recorded, `base` the others. Both are in order, and the entries
    of the state are `recorded` followed by `base`.
    """

    def __init__(self, lineage):
        self.lineage, self.serial, self.current = lineage, 0, None
        self.recorded, self.base = [], []
        self.factory, self.manifest, self.program = factory({}), None, None
        self.extensions, self.unknown, self.foreign = {}, {}, {}
        self.outputs, self.sensitive = {}, []
        self.pending, self.invalidated, self.update = [], None, None
        self.window, self.forgotten = {}, set()
        self.incoming, self.departed = [], []
        self.uncommitted = False

    @classmethod
    def of_snapshot(cls, lineage, snapshot, where):
        """Returns the state that a snapshot describes. `where` names the snapshot in errors."""
        if snapshot.get("lineage") != lineage:
            raise Refused(f"{where}: the snapshot belongs to another stack")
        state = cls(lineage)
        more = snapshot.get("continuation") or {}
        entries = snapshot["entries"] or []
        recorded = int(more.get("recorded", 0))
        state.recorded, state.base = entries[:recorded], entries[recorded:]
        state._take_header(snapshot)
        state.foreign = snapshot.get("foreign-serials", {})
        state.serial = int(snapshot.get("serial", 0))
        state.pending = list(snapshot.get("pending-operations", []))
        state.invalidated = snapshot.get("invalidated")
        state.update, state.current = more.get("update"), more.get("current")
        state.window = {id: applied for id, applied in more.get("recent", [])}
        state.forgotten = set(more.get("forgotten", []))
        state.incoming, state.departed = list(more.get("incoming", [])), list(more.get("departed", []))
        state.uncommitted = more.get("uncommitted", False)
        state._require_valid(Refused, where)
        return state

    def entries(self):
        return self.recorded + self.base

    def comparable(self):
        """Returns a canonical text that is equal for equal states.

        It is the content of a checkpoint without the time, the name of the stack and the messages of violations.
        """
        pending = [without_violations(one) for one in self.pending]
        forgotten = sorted(self.forgotten, key=lambda id: (int(id.split("-")[0]), id.split("-")[1]))
        continuation = {
            "update": self.update,
            "recorded": number(len(self.recorded)),
            "current": self.current,
            "recent": [list(one) for one in self.window.items()],
            "forgotten": forgotten,
            "incoming": self.incoming,
            "departed": self.departed,
            "uncommitted": self.uncommitted,
        }
        snapshot = {
            "serial": number(self.serial),
            "stack": self.factory,
            "program": self.program,
            "manifest": self.manifest,
            "entries": self.entries(),
            "pending-operations": pending,
            "invalidated": self.invalidated,
            "outputs": self.outputs,
            "sensitive-outputs": self.sensitive,
            "foreign-serials": self.foreign,
            "extensions": self.extensions,
            "unknown": self.unknown,
            "continuation": continuation,
        }
        return canonical(snapshot)

    def apply(self, record, load, where):
        """Applies one record.

        `load` is a function that returns the snapshot of a reference. `where` names the record in errors.
        """
        ((kind, content),) = record.items()
        try:
            getattr(self, "_" + kind.replace("-", "_"))(content, load)
        except Broken as broken:
            raise Refused(f"{where}: the record `{kind}` can't be applied: {broken}") from broken
        self.uncommitted = kind != "update-end" and (self.uncommitted or kind in CHANGING)

    # Records

    def _update_start(self, update, _load):
        self._require(self.update is None, "an update is open")
        self.base, self.recorded = self.entries(), []
        if update["kind"] in DRIVEN and self.manifest is not None:
            self.manifest = with_members(self.manifest, plugins=None)
        self.program = update.get("program", self.program)
        self.update = {"who": "", "host": "", **update}

    def _begin(self, begin, _load):
        self._require_update()
        self._require(begin["op"] in BEGUN, "the operation has no begin")
        self._require(all(one["id"] != begin["id"] for one in self.pending), "the mutation is pending already")
        pending = {name: value for name, value in begin.items() if name != "at"}
        self.pending.append(with_members(pending, begun=begin.get("at")))

    def _end(self, end, _load):
        at = self._pending_at(end["id"])
        pending = self.pending[at]
        if end["outcome"] == "failed":
            del self.pending[at]
            self._remember(end["id"], False)
            return
        before = self.recorded, self.base
        try:
            self._outcome(pending, end["outcome"], end.get("entry"), end.get("reasons", []))
            self._require_valid(Broken, "the result")
        except Broken:
            self.recorded, self.base = before
            result = {"outcome": end["outcome"], "violations": []}
            self.pending[at] = dict(pending, result=with_members(result, entry=end.get("entry")))
            self._remember(end["id"], True)
            return
        del self.pending[at]
        self._remember(end["id"], True)
        self._count(pending["op"])

    def _step(self, step, _load):
        self._require_update()
        ((kind, change),) = step["change"].items()
        getattr(self, "_step_" + kind.replace("-", "_"))(change)
        self._remember(step["id"], True)
        self._count(kind)

    def _step_same(self, entry):
        self._require(self._find(key_of(entry))[0] is not self.recorded, "the update has recorded the entry already")
        old = self._take(key_of(entry))
        self._record(with_members(entry, uid=old.get("uid")))

    def _unchanged(self, addresses, _load):
        self._require_update()
        for address in addresses:
            key = address, None
            self._require(self._find(key)[0] is not self.recorded, "the update has recorded the entry already")
            self._record(self._take(key))
            self._count("same")

    def _step_replace(self, target):
        self._find(key_of(target))

    def _step_refresh(self, change):
        if "entry" not in change:
            self._prune(self._take(key_of(change["target"])))
            return
        self._change(
            key_of(change["target"]),
            lambda old: with_members(
                change["entry"], uid=old.get("uid"), address=old["address"], deposed=old.get("deposed")
            ),
        )

    def _step_remove_pending_replace(self, target):
        gone = self._take(key_of(target))
        self._require(gone.get("pending-replacement"), "the entry isn't pending replacement")

    def _step_outputs(self, change):
        self._change(
            key_of(change["target"]),
            lambda old: dict(with_members(old, sensitive_outputs=change.get("sensitive")), outputs=change["outputs"]),
        )

    def _record_plugin(self, plugin, _load):
        self._require_update()
        manifest = self.manifest or {}
        one = {name: plugin.get(name, "") for name in ("kind", "name", "version")}
        plugins = manifest.get("plugins", [])
        if one not in plugins:
            plugins = sorted(plugins + [one], key=lambda p: (p["kind"], p["name"], p["version"]))
        self.manifest = with_members(manifest, plugins=plugins)

    def _set_outputs(self, outputs, _load):
        self._require_update()
        self.outputs, self.sensitive = outputs["values"], outputs.get("sensitive", [])

    def _reset_base(self, reset, load):
        self._require_update()
        before = {key_of(entry): entry for entry in self.entries()}
        snapshot = load(reset["snapshot"])
        self.recorded, self.base = [], list(snapshot["entries"] or [])
        self._take_header(snapshot)
        after = {key_of(entry): entry for entry in self.base}
        counts = {
            "import": sum(key not in before for key in after),
            "update": sum(key in before and differs(entry, before[key]) for key, entry in after.items()),
            "discard": sum(key not in after for key in before),
        }
        self._set_counts({op: number(count) for op, count in counts.items() if count})
        cause = reset["cause"]
        if cause != "edit" and "foreign" in cause.get("import", {}):
            system, imported = cause["import"]["foreign"]
            self._import_foreign(system, int(imported))
        if cause != "edit" and "restore" in cause:
            self.update = dict(self.update, restored=cause["restore"]["revision"])
        known = {one["id"] for one in self.pending}
        for one in reset.get("pending", []):
            if one["id"] not in known:
                known.add(one["id"])
                self.pending.append(one)
        self._remember(reset["id"], True)

    def _import_foreign(self, system, imported):
        exported = 0
        if system in self.foreign:
            known = {name: int(value) for name, value in self.foreign[system].items()}
            later = self.serial - known["at"]
            exported = known["imported"] if later <= 0 else known["highest"] + later
        new = {"imported": imported, "at": self.serial + 1, "highest": max(imported, exported)}
        self.foreign = dict(self.foreign, **{system: {name: number(value) for name, value in new.items()}})

    def _edit(self, edit, _load):
        self._require_update()
        for change in edit["changes"]:
            ((kind, what),) = change.items()
            if kind == "remove":
                self._take(key_of(what))
                self._count("discard")
            elif kind == "put":
                self._change(key_of(what["target"]), lambda _old: what["entry"])
                self._count("update")
            else:
                self.base = self.base + [what]
                self._count("import")
        self._require_valid(Broken, "the edit")
        self._remember(edit["id"], True)

    def _resolve(self, resolve, _load):
        self._require_update()
        at = self._pending_at(resolve["id"])
        pending, done = self.pending[at], resolve["resolution"] != "not-done"
        if done:
            self._outcome(pending, "succeeded", resolve["resolution"]["done"], [], by_hand=True)
            self._count(pending["op"])
        del self.pending[at]
        self._remember(resolve["id"], done)

    def _update_end(self, end, _load):
        self._require_update()
        self._next_serial(end["serial"])
        update = end["update"]
        if update["kind"] in DRIVEN:
            manifest = self.manifest or {}
            self.manifest = with_members(manifest, time=update.get("end"), version=update.get("version"))
        self.update = None
        self.current = self.serial

    def _detached_revision(self, detached, _load):
        self._next_serial(detached["serial"])

    def _forget(self, revision, _load):
        self.forgotten.add(revision)

    def _checkpoint(self, _note, _load):
        pass

    def _invalidate(self, invalidation, _load):
        self._require_update()
        self.invalidated = self.invalidated or invalidation

    def _validate(self, _reason, _load):
        self._require_update()
        self.invalidated = None

    def _move_in(self, move, _load):
        self.incoming.append(move)

    def _move_out(self, move, _load):
        self._require_update()
        for key in move["entries"]:
            self._take(key_of(key))
            self._count("discard")
        self._require_valid(Broken, "the move")
        self.departed.append(move)
        self._remember(move["id"], True)
        self.update = dict(self.update, moved={"out": move["to"]})

    def _move_end(self, end, _load):
        moves = self.departed if end["outcome"] == "confirmed" else self.incoming
        found = [move for move in moves if move["id"] == end["id"]]
        self._require(found, "the move doesn't exist")
        if end["outcome"] == "arrived":
            self._require_update()
            self.base = self.base + found[0]["entries"]
            for _entry in found[0]["entries"]:
                self._count("import")
            self._require_valid(Broken, "the move")
            self.update = dict(self.update, moved={"in": found[0]["from"]})
        moves.remove(found[0])
        if end["outcome"] != "confirmed":
            self._remember(end["id"], end["outcome"] == "arrived")

    def settle(self, chain):
        """Completes the id of the revision that the last frame committed, if it committed one.

        `chain` is the chain after that frame, in hexadecimal.
        """
        if isinstance(self.current, int):
            self.current = f"{self.current}-{chain[:16]}"

    # Parts of records

    def _require(self, holds, what):
        if not holds:
            raise Broken(what)

    def _require_update(self):
        self._require(self.update is not None, "no update is open")

    def _next_serial(self, serial):
        self._require(int(serial) == self.serial + 1, f"serial {serial} doesn't follow serial {self.serial}")
        self.serial += 1

    def _pending_at(self, id):
        for at, one in enumerate(self.pending):
            if one["id"] == id:
                return at
        raise Broken("the mutation isn't pending")

    def _remember(self, id, applied):
        """Remembers whether a mutation took effect, and forgets the oldest one beyond the limit."""
        self.window[id] = applied
        if len(self.window) > WINDOW:
            del self.window[next(iter(self.window))]

    def _count(self, op):
        """Adds one to the count of an operation in the open update."""
        if self.update is not None:
            before = int(self.update.get("counts", {}).get(op, 0))
            self._set_counts({op: number(before + 1)})

    def _set_counts(self, counts):
        merged = {**self.update.get("counts", {}), **counts}
        self.update = with_members(self.update, counts=merged or None)

    def _take_header(self, snapshot):
        self.factory, self.program = factory(snapshot["stack"]), snapshot.get("program")
        self.manifest = manifest(snapshot.get("manifest"))
        self.extensions = snapshot.get("extensions", {})
        self.unknown = {name: value for name, value in snapshot.items() if name not in SNAPSHOT_MEMBERS}
        self.outputs, self.sensitive = snapshot.get("outputs", {}), snapshot.get("sensitive-outputs", [])

    def _find(self, key):
        """Returns the list and the index of an entry.

        Changes replace a list and never modify it in place. `_end` can therefore restore both lists after a refused
        result.
        """
        for list_ in (self.recorded, self.base):
            for at, entry in enumerate(list_):
                if key_of(entry) == key:
                    return list_, at
        raise Broken(f"the entry {key[0]} doesn't exist")

    def _exists(self, key):
        return any(key_of(entry) == key for entry in self.entries())

    def _splice(self, key, replacement):
        """Replaces an entry in place by the list that `replacement` returns for it. Returns the old entry."""
        list_, at = self._find(key)
        changed = list_[:at] + replacement(list_[at]) + list_[at + 1:]
        if list_ is self.recorded:
            self.recorded = changed
        else:
            self.base = changed
        return list_[at]

    def _take(self, key):
        return self._splice(key, lambda _old: [])

    def _change(self, key, change):
        return self._splice(key, lambda old: [change(old)])

    def _record(self, entry):
        self.recorded = self.recorded + [entry]

    def _outcome(self, pending, outcome, entry, reasons, by_hand=False):
        """Applies the result of a pending operation: its success or its partial success.

        The entry of an end is recorded. With `by_hand`, for a resolution, the entry replaces the old one in place or is
        appended to the base.
        """
        op, target = pending["op"], key_of(pending["target"])
        exists = self._exists(target)
        if op in REMOVALS:
            self._require(entry is None, "the result of a removal has an entry")
        else:
            self._require(entry is not None and key_of(entry) == target, "the result has no entry with this key")
        if outcome == "partial" and entry is None:
            self._change(target, lambda old: with_members(old, init_errors=reasons))
            return
        if outcome == "succeeded":
            reasons = []
        self._require(exists or op not in ("update",) + REMOVALS, "the target doesn't exist")
        if outcome == "partial" and op == "update" and exists:
            list_, at = self._find(target)
            old = list_[at]
            entry = with_members(entry, inputs=old.get("inputs"), sensitive_inputs=old.get("sensitive-inputs"))
        if entry is not None:
            entry = with_members(entry, init_errors=reasons, pending_replacement=None)

        def placed(old):
            if op in ("create", "import"):
                if not old.get("pending-replacement"):
                    self._require("deposes" in pending, "the target exists already")
                    return [with_members(old, deposed=pending["deposes"])]
            elif op in REMOVALS and pending.get("tombstone"):
                return [with_members(old, pending_replacement=True)]
            return [entry] if by_hand and entry is not None and "deposes" not in pending else []

        in_place = by_hand and exists and "deposes" not in pending
        if exists:
            list_, at = self._find(target)
            if op in ("update", "read") and "uid" in list_[at]:
                entry = with_members(entry, uid=list_[at]["uid"])
            self._splice(target, placed)
        if entry is not None and not in_place:
            if by_hand:
                self.base = self.base + [entry]
            else:
                self._record(entry)

    def _prune(self, gone):
        address, parent = gone["address"], gone.get("parent")
        changed = prune(self.entries(), address, parent, gone.get("id"))
        self.recorded, self.base = changed[:len(self.recorded)], changed[len(self.recorded):]

    def _require_valid(self, error, where):
        for problem in problems(self.entries()):
            raise error(f"{where}: {problem}")


def without_violations(pending):
    """Returns a pending operation without the violations of its result: each implementation has its own texts."""
    if "result" not in pending:
        return pending
    return dict(pending, result=dict(pending["result"], violations=[]))


def factory(of):
    return {name: of.get(name, "") for name in ("name", "version", "content-revision")}


def manifest(of):
    if of is None:
        return None
    plugins = [{name: one.get(name, "") for name in ("kind", "name", "version")} for one in of.get("plugins", [])]
    return with_members({}, time=of.get("time"), version=of.get("version") or None, plugins=plugins)


def differs(entry, old):
    """Returns whether an entry has changed. `modified` is ignored, and the uid if the new entry has none."""
    before, after = dict(old), dict(entry)
    before.pop("modified", None)
    after.pop("modified", None)
    if "uid" not in after:
        before.pop("uid", None)
    return canonical(before) != canonical(after)


def references(entry):
    """Yields the references of an entry: an address as text, a group as object."""
    for name in ("parent", "deleted-with"):
        if name in entry:
            yield entry[name]
    if "provider" in entry:
        yield entry["provider"]["address"]
    yield from entry.get("depends-on", [])
    yield from entry.get("replace-with", [])
    for dependencies in entry.get("property-dependencies", {}).values():
        yield from dependencies


def prune(entries, address, parent, id):
    """Returns the entries after the removal of the entry with this address, parent and id.

    An entry loses its references to the address unless another generation of the address precedes the entry. A child of
    the removed entry becomes a child of `parent`. An entry loses its provider if the provider has this address and id,
    unless such a generation precedes the entry.
    """
    changed, is_after = [], False
    for entry in entries:
        if not is_after and address in references(entry):
            entry = without(entry, address, parent)
        is_after |= entry["address"] == address
        changed.append(entry)
    if id is None:
        return changed
    entries, changed, is_after = changed, [], False
    for entry in entries:
        managed = entry.get("provider") == {"address": address, "id": id} and not entry.get("pending-replacement")
        if managed and not is_after:
            entry = with_members(entry, provider=None)
        is_after |= entry["address"] == address and entry.get("id") == id
        changed.append(entry)
    return changed


def without(entry, address, parent):
    """Returns an entry without references to this address. A child of the address becomes a child of `parent`."""

    def left(items):
        return [item for item in items if item != address]

    by_property = {name: left(items) for name, items in entry.get("property-dependencies", {}).items()}
    return with_members(
        entry,
        parent=parent if entry.get("parent") == address else entry.get("parent"),
        provider=None if entry.get("provider", {}).get("address") == address else entry.get("provider"),
        deleted_with=None if entry.get("deleted-with") == address else entry.get("deleted-with"),
        depends_on=left(entry.get("depends-on", [])),
        replace_with=left(entry.get("replace-with", [])),
        property_dependencies={name: items for name, items in by_property.items() if items} or None,
    )


def problems(entries):
    """Yields a message for each violation of an integrity rule."""
    keys, uids, last_member = set(), set(), {}
    for at, entry in enumerate(entries):
        if "group" in entry and "deposed" not in entry:
            last_member[entry["group"]] = at
    addresses, ids = set(), set()
    for at, entry in enumerate(entries):
        key, name = key_of(entry), entry["address"]
        if key in keys:
            yield f"two entries have the key of {name}"
        if entry.get("uid", key) in uids:
            yield f"two entries have the uid of {name}"
        keys.add(key)
        uids.add(entry.get("uid"))
        yield from by_itself(entry)
        for reference in references(entry):
            if isinstance(reference, dict):
                group = reference["group"]
                is_member = "deposed" not in entry and entry.get("group") == group
                if is_member or last_member.get(group, -1) >= at:
                    yield f"{name} depends on its own group, or on a group with later members"
            elif reference not in addresses:
                yield f"{name} refers to {reference}, but no earlier entry has this address"
        provider = entry.get("provider", {})
        if "id" in provider and not entry.get("pending-replacement") and provider["address"] in addresses:
            if (provider["address"], provider["id"]) not in ids:
                yield f"{name} names a provider id that no earlier entry has"
        addresses.add(name)
        ids.add((name, entry.get("id")))


def by_itself(entry):
    """Yields a message for each rule that an entry violates regardless of other entries."""
    kind = entry["type"]
    required = ("library", "library-type") if kind == "library-call" else ("kind",)
    for name in required:
        if not entry.get(name):
            yield f"{entry['address']} has no {name}"
    if kind == "library-call" and "id" in entry:
        yield f"{entry['address']} is a library call and has an id"
    if entry.get("external") and (entry.get("pending-replacement") or entry.get("tainted")):
        yield f"{entry['address']} is external, and also tainted or pending replacement"
