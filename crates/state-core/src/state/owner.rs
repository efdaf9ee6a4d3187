//! The owner of a stack: the program or the tool whose resources the state contains.
//!
//! A program deletes every resource of its stack that it doesn't declare. Applied to a stack of another owner, it would
//! therefore delete resources that it never made.

use super::State;

/// The program or tool whose resources a state contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackOwner {
    /// Nobody: the state is empty, or no program was recorded.
    Nobody,
    /// The program with this name; empty for programs without a name.
    Program(String),
    /// Another tool, whose state was imported, such as `terraform`.
    Tool(String),
}

impl StackOwner {
    /// Whether an update of a program with this name (empty: a program without a name) may change the stack.
    pub fn accepts(&self, program: &str) -> bool {
        match self {
            Self::Nobody => true,
            Self::Program(owner) => owner == program,
            Self::Tool(_) => false,
        }
    }
}

impl State {
    /// The owner of the resources. A recorded program precedes the tool that the state came from: it adopted the stack.
    pub fn owner(&self) -> StackOwner {
        if self.is_empty() && self.pending.is_empty() && self.incoming.is_empty() {
            return StackOwner::Nobody;
        }
        if let Some(program) = &self.header.program {
            return StackOwner::Program(program.clone());
        }
        let systems = self.header.foreign_serials.keys();
        let extensions = self.header.extensions.iter().map(|(system, _)| system);
        match systems.map(String::as_str).chain(extensions).next() {
            Some(system) => StackOwner::Tool(system.to_owned()),
            None => StackOwner::Nobody,
        }
    }
}
