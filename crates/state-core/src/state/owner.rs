//! The owner of a stack: the program or the tool whose resources the state contains.
//!
//! An update deletes every resource of the stack that its program doesn't declare. On a stack of another owner, the
//! update would therefore delete resources that the program never created.

use super::State;
use crate::sensitive::ADDED_MARKS;

/// The program or tool whose resources a state contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackOwner {
    /// No owner: the state is empty, or neither a program nor an import from another tool was recorded.
    None,
    /// The program with this name; empty for programs without a name.
    Program(String),
    /// Another tool, whose state was imported, such as `terraform`.
    Tool(String),
}

impl StackOwner {
    /// Whether an update of a program with this name (empty: a program without a name) may change the stack.
    pub fn accepts(&self, program: &str) -> bool {
        match self {
            Self::None => true,
            Self::Program(owner) => owner == program,
            Self::Tool(_) => false,
        }
    }
}

impl State {
    /// Returns the owner of the resources. If an update of a program was recorded, this program is the owner, even if
    /// the state was imported from a tool before: the program took over the imported resources.
    pub fn owner(&self) -> StackOwner {
        if self.is_empty() && self.pending.is_empty() && self.incoming.is_empty() {
            return StackOwner::None;
        }
        if let Some(program) = &self.header.program {
            return StackOwner::Program(program.clone());
        }
        let systems = self.header.foreign_serials.keys();
        let extensions = self.header.extensions.iter().map(|(system, _)| system);
        let mut tools = systems.map(String::as_str).chain(extensions);
        match tools.find(|system| *system != ADDED_MARKS) {
            Some(system) => StackOwner::Tool(system.to_owned()),
            None => StackOwner::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDED_MARKS, StackOwner};
    use crate::mutation::{Edit, EditChange};
    use crate::snapshot::ForeignSerial;
    use crate::state::{LoadedSnapshots, State};
    use crate::{
        Entry, Json, Lineage, MutationId, Record, Serial, Timestamp, Uid, UpdateId, UpdateInfo, UpdateKind,
    };

    #[test]
    fn stack_belongs_to_the_program_that_updated_it() {
        let lineage = Lineage::from_bits([1; 16]);
        let mut state = State::new(lineage);
        let mut apply = |record| state.apply(&record, &LoadedSnapshots::new()).unwrap();
        let start = Timestamp::new("2026-01-01T00:00:00Z");
        apply(Record::UpdateStart(UpdateInfo {
            program: Some("site".to_owned()),
            ..UpdateInfo::new(UpdateId::from_bits([2; 16]), UpdateKind::Update, start.clone())
        }));
        let mut entry = Entry::leaf("a".parse().unwrap(), "thing");
        entry.uid = Some(Uid::from_bits([3; 16]));
        apply(Record::Edit(Edit {
            id: MutationId::from_bits([4; 16]),
            changes: vec![EditChange::Append(entry.into())],
        }));
        let owner = state.owner();
        assert_eq!(owner, StackOwner::Program("site".to_owned()));
        assert!(owner.accepts("site") && !owner.accepts("other") && !owner.accepts(""));

        let mut snapshot = state.snapshot("shop/production", start);
        assert_eq!(State::from_snapshot(lineage, &snapshot).unwrap().owner(), owner);
        snapshot.program = None;
        let unowned = State::from_snapshot(lineage, &snapshot).unwrap().owner();
        assert!(unowned == StackOwner::None && unowned.accepts("other"));
        snapshot
            .extensions
            .insert(ADDED_MARKS, Json::parse("{}").unwrap());
        let marked = State::from_snapshot(lineage, &snapshot).unwrap().owner();
        assert_eq!(
            marked,
            StackOwner::None,
            "added marks don't make a tool the owner"
        );
        let foreign = ForeignSerial::after_import(None, 7, Serial(1));
        snapshot.foreign_serials.insert("terraform".to_owned(), foreign);
        let imported = State::from_snapshot(lineage, &snapshot).unwrap().owner();
        assert_eq!(imported, StackOwner::Tool("terraform".to_owned()));
        assert!(!imported.accepts("") && !imported.accepts("terraform"));
        snapshot.entries.clear();
        let empty = State::from_snapshot(lineage, &snapshot).unwrap().owner();
        assert_eq!(empty, StackOwner::None, "an empty stack has no owner");
    }
}
