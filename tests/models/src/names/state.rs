//! The state of the model: name pointers, heads, and the operations of clients.

/// Number of names in the store.
pub const NAMES: usize = 3;

/// The model of names, with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The operations, each by a client of its own, all at the same time. A stack has the name 0 at first.
    pub operations: &'static [Operation],
    /// Number of clients that crash.
    pub crashes: u8,
    /// The known error of this variant.
    pub flaw: Option<Flaw>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a stack with this name.
    Create(u8),
    /// Gives the stack with the first name the second one.
    Rename(u8, u8),
    /// Removes the stack with this name.
    Remove(u8),
    /// Gives the stack with this name a new data key.
    RotateKey(u8),
}

/// A known error in a variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The next lock holder completes a rename if the new pointer leads to the stack, whatever its nonce.
    NonceNotCompared,
    /// The pointer of a name that a stack gave up is replaced without comparing it.
    TombstoneNotCompared,
    /// The pointer of a name that a stack gave up is read after the commit of the rename, and compared only with the stack. If
    /// another client renames the stack back in between, the new pointer becomes a tombstone.
    OldPointerReadLate,
    /// A removal frees the name before it marks the head.
    NameFreedFirst,
    /// A rename changes the name in the head before the new pointer leads to the stack.
    HeadRenamedFirst,
    /// A head is replaced although another lock holder changed it.
    HeadNotCompared,
    /// A rotation names the new key in the head before the pointer has a tag under it.
    KeyNamedFirst,
}

/// The stored pointer of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The nonce, which is different after each swap; 0 means that there is no pointer.
    pub nonce: u8,
    /// The stack to which it leads; none after the stack gave up the name.
    pub stack: Option<u8>,
    /// The generations of data keys under which it has tags, as bits.
    pub tags: u8,
}

/// The head of a stack, as far as names are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// The nonce, which is different after each swap.
    pub version: u8,
    /// The name of the stack.
    pub name: u8,
    /// The announced name, and the nonce of the pointer that completes the rename.
    pub moving_to: Option<(u8, u8)>,
    /// Whether the stack was removed.
    pub removed: bool,
    /// Generation of the data key.
    pub key: u8,
    /// Whether the creation of the stack was acknowledged.
    pub is_known: bool,
}

/// How far a client is. `stack` is the stack whose lock it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not begun.
    #[default]
    Start,
    /// It created a head, and saw this nonce in the pointer.
    HeadCreated(u8),
    /// It found the stack, and takes its lock next.
    Found,
    /// It holds the lock, and settles an interrupted rename next.
    Locked,
    /// It decided whether to complete the interrupted rename, and saw this nonce in the pointer of the old name.
    Decided(bool, u8),
    /// It reads the pointer of the name that the stack gave up next; then it goes on, or ends.
    GaveUp(u8, bool),
    /// It read the nonce of that pointer, and replaces the pointer next.
    Releases(u8, u8, bool),
    /// It begins the operation.
    Ready,
    /// It saw this nonce in the pointer of the new name.
    Resolved(u8),
    /// It announced the rename, and swaps the pointer next, if this nonce is still there.
    Announced(u8),
    /// It lost the new name to another client, and withdraws the announcement next.
    Lost,
    /// The new pointer leads to the stack; it reads the pointer of the old name next.
    Pointed,
    /// It saw this nonce in the pointer of the old name, or none that leads to the stack; the head takes the new name next.
    Commits(u8),
    /// It saw this nonce in the pointer that it signs.
    Signs(u8),
    /// The pointer has a tag under the new key.
    Signed,
    /// The operation of the client succeeded.
    Done,
    /// The operation was refused, or its lock was lost.
    Refused,
    /// The client crashed before its end.
    Crashed,
}

/// A client with one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// How far the client is.
    pub phase: Phase,
    /// The stack that it works on.
    pub stack: u8,
    /// The head as it last read or replaced it.
    pub seen: Head,
}

/// The state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The pointers, by name.
    pub pointers: [Pointer; NAMES],
    /// The heads, by stack.
    pub heads: Vec<Head>,
    /// The clients, one for each operation.
    pub clients: Vec<Client>,
    /// Number of clients that crashed.
    pub crashes: u8,
    /// The nonce that was made last.
    pub nonce: u8,
}

impl State {
    /// A store with one stack, which has the name 0.
    pub fn new(clients: usize) -> Self {
        let mut pointers = [Pointer::default(); NAMES];
        pointers[0] = Pointer {
            nonce: 1,
            stack: Some(0),
            tags: 1,
        };
        let head = Head {
            is_known: true,
            ..Head::default()
        };
        Self {
            pointers,
            heads: vec![head],
            clients: vec![Client::default(); clients],
            crashes: 0,
            nonce: 1,
        }
    }

    /// Makes a new nonce.
    pub fn next_nonce(&mut self) -> u8 {
        self.nonce += 1;
        self.nonce
    }

    /// The pointer of a name.
    pub fn pointer(&self, name: u8) -> Pointer {
        self.pointers[usize::from(name)]
    }

    /// The stack to which a name leads.
    pub fn resolve(&self, name: u8) -> Option<u8> {
        let pointer = self.pointer(name);
        pointer.stack.filter(|stack| {
            let head = &self.heads[usize::from(*stack)];
            let is_bound = head.name == name || head.moving_to == Some((name, pointer.nonce));
            is_bound && !head.removed
        })
    }

    /// Replaces a pointer if it still has the nonce.
    pub fn swap_pointer(&mut self, name: u8, before: u8, pointer: Pointer) -> bool {
        let stored = &mut self.pointers[usize::from(name)];
        let is_current = stored.nonce == before;
        if is_current {
            *stored = pointer;
        }
        is_current
    }
}
