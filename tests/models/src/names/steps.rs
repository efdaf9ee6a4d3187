//! The steps of the operations, each with one read or one conditional write.

use super::state::{Client, Flaw, Head, Names, Operation, Phase, Pointer, State};

/// Takes the next step of a client; returns whether there is one.
pub fn take(model: &Names, state: &mut State, at: usize) -> bool {
    let operation = model.operations[at];
    let client = state.clients[at];
    let next = match client.phase {
        Phase::Start => start(state, at, operation),
        Phase::HeadCreated(before) => point_new(state, &client, operation, before),
        Phase::Found => lock(state, at),
        Phase::Locked => decide(model, state, &client),
        Phase::Decided(completes, old) => settle(model, state, at, completes, old),
        Phase::GaveUp(name, ends) => read_given_up(model, state, &client, name, ends),
        Phase::Releases(name, before, ends) => release(model, state, at, (name, before, ends)),
        Phase::Ready => begin(model, state, at, operation),
        Phase::Resolved(before) => announce(model, state, at, operation, before),
        Phase::Announced(before) => point(state, &client, before),
        Phase::Lost => {
            let head = Head {
                moving_to: None,
                ..client.seen
            };
            swap(model, state, at, head, Phase::Refused)
        }
        Phase::Pointed => Phase::Commits(old_nonce(state, &client)),
        Phase::Commits(old) => commit(model, state, at, old),
        Phase::Signs(before) => sign(model, state, &client, before),
        Phase::Signed => {
            let key = client.seen.key + 1;
            let then = if model.flaw == Some(Flaw::KeyNamedFirst) {
                Phase::Signs(state.pointer(client.seen.name).nonce)
            } else {
                Phase::Done
            };
            swap(model, state, at, Head { key, ..client.seen }, then)
        }
        Phase::Done | Phase::Refused | Phase::Crashed => return false,
    };
    state.clients[at].phase = next;
    true
}

/// Looks the name up. A creation also stores the head of the new stack, which nothing names yet.
fn start(state: &mut State, at: usize, operation: Operation) -> Phase {
    let (Operation::Create(name)
    | Operation::Rename(name, _)
    | Operation::Remove(name)
    | Operation::RotateKey(name)) = operation;
    let found = state.resolve(name);
    match (operation, found) {
        (Operation::Create(_), Some(_)) => Phase::Refused,
        (Operation::Create(_), None) => {
            state.clients[at].stack = u8::try_from(state.heads.len()).expect("a model has few stacks");
            state.heads.push(Head {
                name,
                ..Head::default()
            });
            Phase::HeadCreated(state.pointer(name).nonce)
        }
        (_, None) => Phase::Refused,
        (_, Some(stack)) => {
            state.clients[at].stack = stack;
            Phase::Found
        }
    }
}

fn point_new(state: &mut State, client: &Client, operation: Operation, before: u8) -> Phase {
    let Operation::Create(name) = operation else {
        return Phase::Refused;
    };
    let pointer = Pointer {
        nonce: state.next_nonce(),
        stack: Some(client.stack),
        tags: 1,
    };
    if !state.swap_pointer(name, before, pointer) {
        return Phase::Refused;
    }
    state.heads[usize::from(client.stack)].is_known = true;
    Phase::Done
}

/// Takes the lock: a takeover, which no earlier lock holder survives. A lock may end or be broken at any time.
fn lock(state: &mut State, at: usize) -> Phase {
    let client = &mut state.clients[at];
    let head = &mut state.heads[usize::from(client.stack)];
    if head.removed {
        return Phase::Refused;
    }
    head.version += 1;
    client.seen = *head;
    match head.moving_to {
        Some(_) => Phase::Locked,
        None => Phase::Ready,
    }
}

/// Reads the pointer of the announced name.
fn decide(model: &Names, state: &State, client: &Client) -> Phase {
    let Some((name, nonce)) = client.seen.moving_to else {
        return Phase::Ready;
    };
    let pointer = state.pointer(name);
    let completes = match model.flaw == Some(Flaw::NonceNotCompared) {
        true => pointer.stack == Some(client.stack),
        false => pointer.nonce == nonce,
    };
    Phase::Decided(completes, old_nonce(state, client))
}

/// The nonce in the pointer of the present name, if it leads to the stack; otherwise 0.
fn old_nonce(state: &State, client: &Client) -> u8 {
    let pointer = state.pointer(client.seen.name);
    match pointer.stack == Some(client.stack) {
        true => pointer.nonce,
        false => 0,
    }
}

/// The phase after the commit of a rename: the pointer of the old name is replaced, if it is still the one that was read.
fn renamed(model: &Names, name: u8, old: u8, ends: bool) -> Phase {
    match model.flaw {
        Some(Flaw::OldPointerReadLate | Flaw::TombstoneNotCompared) => Phase::GaveUp(name, ends),
        _ if old == 0 => after(ends),
        _ => Phase::Releases(name, old, ends),
    }
}

fn settle(model: &Names, state: &mut State, at: usize, completes: bool, old: u8) -> Phase {
    let seen = state.clients[at].seen;
    let (name, then) = match seen.moving_to {
        Some((name, _)) if completes => (name, renamed(model, seen.name, old, false)),
        _ => (seen.name, Phase::Ready),
    };
    let head = Head {
        name,
        moving_to: None,
        ..seen
    };
    swap(model, state, at, head, then)
}

/// Replaces the head, unless another lock holder did.
fn swap(model: &Names, state: &mut State, at: usize, head: Head, then: Phase) -> Phase {
    let client = &mut state.clients[at];
    let stored = &mut state.heads[usize::from(client.stack)];
    if stored.version != client.seen.version && model.flaw != Some(Flaw::HeadNotCompared) {
        return Phase::Refused;
    }
    *stored = Head {
        version: stored.version + 1,
        ..head
    };
    client.seen = *stored;
    then
}

fn begin(model: &Names, state: &mut State, at: usize, operation: Operation) -> Phase {
    let seen = state.clients[at].seen;
    match operation {
        Operation::Rename(_, to) if seen.name == to => Phase::Done,
        Operation::Rename(from, _) | Operation::Remove(from) | Operation::RotateKey(from)
            if seen.name != from =>
        {
            Phase::Refused
        }
        Operation::Rename(_, to) => match state.resolve(to) {
            Some(_) => Phase::Refused,
            None => Phase::Resolved(state.pointer(to).nonce),
        },
        Operation::Remove(name)
            if model.flaw == Some(Flaw::NameFreedFirst) && state.pointer(name).stack.is_some() =>
        {
            let nonce = state.next_nonce();
            let before = state.pointer(name).nonce;
            state.swap_pointer(
                name,
                before,
                Pointer {
                    nonce,
                    ..Pointer::default()
                },
            );
            Phase::Ready
        }
        Operation::Remove(name) => {
            let head = Head {
                removed: true,
                ..seen
            };
            swap(model, state, at, head, Phase::GaveUp(name, true))
        }
        Operation::RotateKey(_) if model.flaw == Some(Flaw::KeyNamedFirst) => Phase::Signed,
        Operation::RotateKey(name) => Phase::Signs(state.pointer(name).nonce),
        Operation::Create(_) => Phase::Refused,
    }
}

fn announce(model: &Names, state: &mut State, at: usize, operation: Operation, before: u8) -> Phase {
    let Operation::Rename(_, to) = operation else {
        return Phase::Refused;
    };
    let moving_to = Some((to, state.next_nonce()));
    let seen = state.clients[at].seen;
    let name = match model.flaw == Some(Flaw::HeadRenamedFirst) {
        true => to,
        false => seen.name,
    };
    swap(
        model,
        state,
        at,
        Head {
            moving_to,
            name,
            ..seen
        },
        Phase::Announced(before),
    )
}

fn point(state: &mut State, client: &Client, before: u8) -> Phase {
    let Some((name, nonce)) = client.seen.moving_to else {
        return Phase::Refused;
    };
    let pointer = Pointer {
        nonce,
        stack: Some(client.stack),
        tags: 1 << client.seen.key,
    };
    match state.swap_pointer(name, before, pointer) {
        true => Phase::Pointed,
        // Only a conflict proves that the pointer wasn't swapped.
        false => Phase::Lost,
    }
}

/// The commit point of a rename: the head takes the new name.
fn commit(model: &Names, state: &mut State, at: usize, old: u8) -> Phase {
    let seen = state.clients[at].seen;
    let Some((name, _)) = seen.moving_to else {
        return Phase::Refused;
    };
    let head = Head {
        name,
        moving_to: None,
        ..seen
    };
    swap(model, state, at, head, renamed(model, seen.name, old, true))
}

fn read_given_up(model: &Names, state: &State, client: &Client, name: u8, ends: bool) -> Phase {
    let pointer = state.pointer(name);
    let is_ours = pointer.stack == Some(client.stack) || model.flaw == Some(Flaw::TombstoneNotCompared);
    match is_ours {
        true => Phase::Releases(name, pointer.nonce, ends),
        false => after(ends),
    }
}

fn release(model: &Names, state: &mut State, at: usize, (name, before, ends): (u8, u8, bool)) -> Phase {
    let pointer = Pointer {
        nonce: state.next_nonce(),
        stack: None,
        tags: 1 << state.clients[at].seen.key,
    };
    let before = match model.flaw == Some(Flaw::TombstoneNotCompared) {
        true => state.pointer(name).nonce,
        false => before,
    };
    // Another pointer means that the name leads elsewhere already.
    state.swap_pointer(name, before, pointer);
    after(ends)
}

const fn after(ends: bool) -> Phase {
    match ends {
        true => Phase::Done,
        false => Phase::Ready,
    }
}

/// Gives the pointer tags under the old and the new key.
fn sign(model: &Names, state: &mut State, client: &Client, before: u8) -> Phase {
    let named_first = model.flaw == Some(Flaw::KeyNamedFirst);
    let new = client.seen.key + u8::from(!named_first);
    let pointer = state.pointer(client.seen.name);
    if pointer.stack != Some(client.stack) {
        return Phase::Refused;
    }
    let signed = Pointer {
        nonce: state.next_nonce(),
        tags: 1 << new | 1 << (new - 1),
        ..pointer
    };
    match state.swap_pointer(client.seen.name, before, signed) {
        true if named_first => Phase::Done,
        true => Phase::Signed,
        false => Phase::Refused,
    }
}
