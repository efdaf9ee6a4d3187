//! Approval of the commands that providers start and of the files that they read or delete.
//!
//! A state is untrusted input: an attacker who can write to the store could record a `delete` command, and the next run
//! of another user would start it. So a command that only the state names doesn't run, and a file that only the state
//! names is neither read nor deleted.
//!
//! A provider reports the commands and files of a call ([`Provider::commands`](crate::Provider::commands)). The engine
//! makes the call only if each of these commands and files is allowed in one of three ways:
//!
//! - **declared**: the program of this run declares exactly this command for this resource, and its text contains no
//!   output of another resource. A tool can except the commands of reads, which planning runs before the user has seen
//!   anything of the program ([`CommandApprovals::withhold_reads`]), or
//! - **derived**: the program declares this command, and its text contains outputs of other resources. These outputs
//!   may come from a manipulated state, so a derived command is allowed only for a planned create or update. The report
//!   of the plan lists it ([`Report::derived_commands`](crate::Report::derived_commands)), so that the user can review
//!   it before the plan is applied, or
//! - **approved**: the user approved the digest of the command, and the caller of the engine passed this digest to
//!   [`CommandApprovals`]. A derived command is approved too, as soon as a run begins to create or update its resource.
//!
//! [`CommandApprovals::default`] approves nothing. Refused commands are collected, so that a tool can show them, ask
//! the user and plan again.

use state_core::sensitive::SecretStrings;
use state_core::{Address, Digest, EntryKey, Json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls of a provider that may start commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CommandCall {
    /// A call of [`Provider::create`](crate::Provider::create).
    Create,
    /// A call of [`Provider::read`](crate::Provider::read).
    Read,
    /// A call of [`Provider::update`](crate::Provider::update).
    Update,
    /// A call of [`Provider::delete`](crate::Provider::delete).
    Delete,
}

impl CommandCall {
    /// All calls that may start commands.
    pub const ALL: [Self; 4] = [Self::Create, Self::Read, Self::Update, Self::Delete];

    /// Whether the call brings an object to the inputs of a program, as opposed to a call for a recorded object.
    const fn applies_program(self) -> bool {
        matches!(self, Self::Create | Self::Update)
    }
}

/// A command that a provider starts for a resource, with all data that determines its effect; or a
/// [file](ResourceCommand::file) that a provider reads or deletes.
#[derive(Clone, PartialEq, Eq)]
pub struct ResourceCommand {
    /// Name of the input that contains the command; `path` or `source` for the use of a file.
    pub name: &'static str,
    /// The program and its arguments; for the use of a file, only its path.
    pub argv: Vec<String>,
    /// The absolute directory in which the command runs; empty for the use of a file.
    pub dir: PathBuf,
    /// Environment variables that the resource sets.
    pub environment: Vec<(String, String)>,
    /// Standard input that the resource sets.
    pub stdin: Option<String>,
}

/// Value of [`ResourceCommand::name`] that marks a file that is read or deleted, as opposed to a command.
const FILE: &str = "path";

/// Value of [`ResourceCommand::name`] that marks a file that is only read.
const SOURCE: &str = "source";

/// Placeholder for secrets in a command that is shown to the user.
pub(crate) const SENSITIVE: &str = "(sensitive)";

impl ResourceCommand {
    /// Describes the read or the deletion of the file or directory at `path`. Such a use starts no command, but needs
    /// the same approval: otherwise a manipulated state could name any file of the user, and the next run would read or
    /// delete this file.
    pub fn file(path: String) -> Self {
        Self::of_file(FILE, path)
    }

    /// Describes the read of the file at `path`, from which a call copies. The approval of such a read doesn't allow to
    /// delete the file.
    pub fn source(path: String) -> Self {
        Self::of_file(SOURCE, path)
    }

    fn of_file(name: &'static str, path: String) -> Self {
        Self {
            name,
            argv: vec![path],
            dir: PathBuf::new(),
            environment: Vec::new(),
            stdin: None,
        }
    }

    /// Whether this describes the use of a file, as opposed to a command.
    pub fn is_file(&self) -> bool {
        self.is_deletable_file() || self.name == SOURCE
    }

    /// Whether this describes the use of a file that calls may also delete.
    pub fn is_deletable_file(&self) -> bool {
        self.name == FILE
    }

    /// The digest that an approval names. It covers all fields, so an approval of one command is valid for no other
    /// command.
    pub fn digest(&self) -> Digest {
        let mut digester = Digester::default();
        digester.add(self.name);
        digester.add_all(self.argv.iter());
        digester.add(&self.dir.to_string_lossy());
        let variables: BTreeMap<_, _> = self.environment.iter().cloned().collect();
        digester.add_all(variables.iter().flat_map(|(name, value)| [name, value]));
        digester.add_all(self.stdin.iter());
        digester.finish()
    }

    /// Returns a text as a JSON string: unambiguous, on one line. Invisible characters, and characters that change the
    /// direction of text, are escaped: with them, a command could look like another command.
    pub fn quote(text: &str) -> String {
        let mut quoted = String::with_capacity(text.len() + 2);
        for c in Json::from_string(text).as_str().chars() {
            if is_invisible(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                quoted.push(c);
            }
        }
        quoted
    }

    /// The command with a placeholder in place of secrets.
    fn masked(&self, secrets: &SecretStrings, placeholder: &str) -> Self {
        let mask = |text: &String| secrets.masked_in(text, placeholder).into_owned();
        let variables = self.environment.iter();
        Self {
            argv: self.argv.iter().map(mask).collect(),
            environment: variables
                .map(|(name, value)| (name.clone(), mask(value)))
                .collect(),
            stdin: self.stdin.as_ref().map(mask),
            ..self.clone()
        }
    }
}

/// Omits the arguments, variables and standard input, which may be secret.
impl fmt::Debug for ResourceCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceCommand")
            .field("name", &self.name)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// The arguments as JSON strings in brackets: unambiguous, on one line.
impl fmt::Display for ResourceCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.argv.iter().map(|word| Self::quote(word)).collect();
        write!(f, "[{}]", words.join(", "))
    }
}

/// Whether a terminal shows a character as nothing, as blank, or as a part of its neighbours.
fn is_invisible(c: char) -> bool {
    // These letters and this symbol are printable by their Unicode category, but their glyphs are blank.
    let is_blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    is_blank || (!c.is_ascii() || c.is_ascii_control()) && c.escape_debug().len() > 1
}

/// Encodes fields with their lengths before hashing, so that no two sequences of fields have the same bytes.
struct Digester(Vec<u8>);

impl Default for Digester {
    fn default() -> Self {
        Self(b"statectl resource command 1\0".to_vec())
    }
}

impl Digester {
    fn add(&mut self, text: &str) {
        self.0.extend_from_slice(&(text.len() as u64).to_be_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn add_all<'a>(&mut self, texts: impl Iterator<Item = &'a String>) {
        let texts: Vec<&String> = texts.collect();
        self.0.extend_from_slice(&(texts.len() as u64).to_be_bytes());
        texts.into_iter().for_each(|text| self.add(text));
    }

    fn finish(self) -> Digest {
        Digest::of(&self.0)
    }
}

/// A command that isn't approved, and the entry that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnapprovedCommand {
    /// Key of the entry.
    pub key: EntryKey,
    /// The digest to approve.
    pub digest: Digest,
    /// The command in plain text, including its secrets.
    pub command: ResourceCommand,
    /// The command with a placeholder in place of secrets, for display.
    pub masked: ResourceCommand,
}

impl UnapprovedCommand {
    fn new(key: &EntryKey, command: ResourceCommand, secrets: &SecretStrings) -> Self {
        Self {
            key: key.clone(),
            digest: command.digest(),
            masked: command.masked(secrets, SENSITIVE),
            command,
        }
    }

    /// Whether a part of the command is hidden in `masked`.
    pub fn is_masked(&self) -> bool {
        self.command != self.masked
    }

    /// The reason of the failure that refuses a call because of this command.
    pub(crate) fn reason(&self) -> String {
        let name = self.command.name;
        match self.command.is_file() {
            true => format!(
                "its {name} {} comes from the state and isn't approved on this client",
                self.masked
            ),
            false => format!("its `{name}` command comes from the state and isn't approved on this client"),
        }
    }
}

/// The commands that a run may start, and the commands that it refused. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct CommandApprovals(Arc<Mutex<Decisions>>);

#[derive(Debug, Default)]
struct Decisions {
    approved: BTreeSet<Digest>,
    declared: BTreeSet<(Address, Digest)>,
    derived: BTreeSet<(Address, Digest)>,
    /// Derived commands of the resources that the run began to create or update.
    executed: BTreeSet<Digest>,
    /// The part of `executed` that [`CommandApprovals::take_executed`] hasn't returned yet.
    new_executed: Vec<Digest>,
    /// Whether calls of [`CommandCall::Read`] need an approval even for declared commands.
    withholds_reads: bool,
    /// By key of the entry and [`ResourceCommand::name`].
    refused: BTreeMap<(EntryKey, &'static str), UnapprovedCommand>,
}

impl Decisions {
    /// Whether a call for an entry may run a command.
    fn allows(&self, key: &EntryKey, digest: Digest, call: CommandCall) -> bool {
        let of_program = (key.address.clone(), digest);
        let is_withheld = self.withholds_reads && call == CommandCall::Read;
        self.approved.contains(&digest)
            || self.declared.contains(&of_program) && !is_withheld
            || call.applies_program() && self.derived.contains(&of_program)
    }
}

/// The commands that a program declares for a resource.
#[derive(Debug, Default)]
pub(crate) struct ProgramCommands {
    /// Commands whose text contains no output of another resource.
    pub(crate) literal: Vec<ResourceCommand>,
    /// Commands whose text contains outputs of other resources.
    pub(crate) derived: Vec<ResourceCommand>,
}

impl CommandApprovals {
    /// Creates approvals of the commands with these digests, which [`ResourceCommand::digest`] computes.
    #[must_use]
    pub fn of(approved: impl IntoIterator<Item = Digest>) -> Self {
        let approvals = Self::default();
        approvals.approve(approved);
        approvals
    }

    /// Approves more commands, and removes them from the refused commands.
    pub fn approve(&self, digests: impl IntoIterator<Item = Digest>) {
        let mut decisions = self.decisions();
        decisions.approved.extend(digests);
        let Decisions {
            approved, refused, ..
        } = &mut *decisions;
        refused.retain(|_, command| !approved.contains(&command.digest));
    }

    /// The commands that were refused so far, by entry.
    pub fn refused(&self) -> Vec<UnapprovedCommand> {
        self.decisions().refused.values().cloned().collect()
    }

    /// Requires an approval for each command of [`CommandCall::Read`], also for those that the program declares. For a
    /// program that the user hasn't accepted yet: planning calls `read`, before a plan can be shown and confirmed.
    pub fn withhold_reads(&self) {
        self.decisions().withholds_reads = true;
    }

    /// Ends the effect of [`CommandApprovals::withhold_reads`]: the user has confirmed a plan of the program.
    pub fn release_reads(&self) {
        self.decisions().withholds_reads = false;
    }

    /// Digests of the commands that the user approved by running the program: all declared commands, except while
    /// [reads are withheld](Self::withhold_reads), and the derived commands of the resources that a run began to create or
    /// update. A tool may remember these digests for runs of other programs.
    pub fn confirmed(&self) -> BTreeSet<Digest> {
        let decisions = self.decisions();
        let declared = decisions.declared.iter().filter(|_| !decisions.withholds_reads);
        let declared = declared.map(|(_, digest)| *digest);
        declared.chain(decisions.executed.iter().copied()).collect()
    }

    /// Returns the derived commands of the resources that a run began to create or update since the last call of this
    /// method. A tool that remembers them at each [`Event::Planned`](crate::Event::Planned) can settle a create after a
    /// crash without asking the user.
    pub fn take_executed(&self) -> Vec<Digest> {
        std::mem::take(&mut self.decisions().new_executed)
    }

    /// Whether the run refused no command so far, except commands that were approved since.
    pub fn is_complete(&self) -> bool {
        self.decisions().refused.is_empty()
    }

    /// Records the commands that the program declares for a resource.
    pub(crate) fn declare(&self, address: &Address, commands: &ProgramCommands) {
        let of_program = |command: &ResourceCommand| (address.clone(), command.digest());
        let mut decisions = self.decisions();
        decisions.declared.extend(commands.literal.iter().map(of_program));
        decisions.derived.extend(commands.derived.iter().map(of_program));
    }

    /// Approves the derived commands among the commands of a resource that a run is about to create or update. The
    /// caller of the engine confirmed this step when it applied the plan.
    pub(crate) fn execute(&self, address: &Address, commands: &[ResourceCommand]) {
        let digests = commands.iter().map(ResourceCommand::digest);
        let mut decisions = self.decisions();
        let derived: Vec<Digest> = digests
            .filter(|digest| decisions.derived.contains(&(address.clone(), *digest)))
            .collect();
        decisions.approved.extend(&derived);
        decisions.executed.extend(&derived);
        decisions.new_executed.extend(derived);
    }

    /// Returns the commands that aren't approved yet, for display.
    pub(crate) fn unapproved(
        &self,
        key: &EntryKey,
        commands: Vec<ResourceCommand>,
        secrets: &SecretStrings,
    ) -> Vec<UnapprovedCommand> {
        let decisions = self.decisions();
        let commands = commands.into_iter();
        let unapproved = commands.filter(|command| !decisions.approved.contains(&command.digest()));
        unapproved
            .map(|command| UnapprovedCommand::new(key, command, secrets))
            .collect()
    }

    /// Returns those commands of a call for an entry that aren't allowed to run, and adds them to the refused commands.
    pub(crate) fn refuse(
        &self,
        key: &EntryKey,
        commands: Vec<ResourceCommand>,
        secrets: &SecretStrings,
        call: CommandCall,
    ) -> Vec<UnapprovedCommand> {
        let mut decisions = self.decisions();
        let commands = commands.into_iter();
        let refused = commands.filter(|command| !decisions.allows(key, command.digest(), call));
        let refused: Vec<_> = refused
            .map(|command| UnapprovedCommand::new(key, command, secrets))
            .collect();
        for command in &refused {
            let place = (key.clone(), command.command.name);
            decisions.refused.insert(place, command.clone());
        }
        refused
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandApprovals, CommandCall, ProgramCommands, ResourceCommand, UnapprovedCommand};
    use state_core::sensitive::SecretStrings;
    use state_core::{EntryKey, Json};

    fn command() -> ResourceCommand {
        ResourceCommand {
            name: "delete",
            argv: vec!["rm".to_owned(), "-r".to_owned(), "data".to_owned()],
            dir: "/srv".into(),
            environment: vec![("A".to_owned(), "1".to_owned())],
            stdin: None,
        }
    }

    #[test]
    fn every_part_of_a_command_changes_its_digest() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let with = |change: fn(&mut ResourceCommand)| {
            let mut command = command();
            change(&mut command);
            command
        };
        let others = [
            with(|it| it.name = "read"),
            ResourceCommand {
                argv: texts(&["rm", "-r"]),
                ..command()
            },
            ResourceCommand {
                argv: texts(&["rm", "-rdata"]),
                ..command()
            },
            ResourceCommand {
                argv: texts(&["rm", "-", "rdata"]),
                ..command()
            },
            with(|it| it.dir = "/".into()),
            with(|it| it.environment.clear()),
            ResourceCommand {
                environment: pair("A", "2"),
                ..command()
            },
            ResourceCommand {
                environment: pair("A1", ""),
                ..command()
            },
            with(|it| it.stdin = Some(String::new())),
        ];
        for other in &others {
            assert_ne!(other.digest(), command().digest(), "{other:?}");
        }
        assert_eq!(command().digest(), command().digest());
    }

    #[test]
    fn declaration_is_valid_for_its_resource_only() {
        let key = |name: &str| EntryKey::live(name.parse().unwrap());
        let approvals = CommandApprovals::default();
        let digest = command().digest();
        let commands = ProgramCommands {
            literal: vec![command()],
            ..ProgramCommands::default()
        };
        approvals.declare(&key("a").address, &commands);
        let no_secrets = SecretStrings::default();
        let refused =
            |name: &str| approvals.refuse(&key(name), vec![command()], &no_secrets, CommandCall::Delete);
        assert!(refused("a").is_empty() && approvals.is_complete());
        assert_eq!(refused("b").len(), 1);
        assert_eq!(approvals.refused(), refused("b"));
        approvals.approve([digest]);
        assert!(refused("b").is_empty() && approvals.is_complete());
    }

    #[test]
    fn derived_command_is_allowed_for_create_and_update_only() {
        let key = EntryKey::live("a".parse().unwrap());
        let approvals = CommandApprovals::default();
        let commands = ProgramCommands {
            derived: vec![command()],
            ..ProgramCommands::default()
        };
        approvals.declare(&key.address, &commands);
        let no_secrets = SecretStrings::default();
        let is_refused = |call| {
            !approvals
                .refuse(&key, vec![command()], &no_secrets, call)
                .is_empty()
        };
        assert_eq!(
            CommandCall::ALL.map(is_refused),
            [false, true, false, true],
            "create, read, update, delete"
        );
        assert!(approvals.confirmed().is_empty());
        approvals.execute(&key.address, &[command()]);
        assert_eq!(CommandCall::ALL.map(is_refused), [false; 4]);
        assert_eq!(approvals.confirmed(), [command().digest()].into());
        assert_eq!(approvals.take_executed(), [command().digest()]);
        assert!(approvals.take_executed().is_empty());
    }

    #[test]
    fn invisible_characters_of_a_command_are_escaped() {
        for invisible in
            "\u{7f}\u{85}\u{a0}\u{ad}\u{34f}\u{61c}\u{115f}\u{200b}\u{200d}\u{200e}\u{2028}\u{202e}\u{2060}\
                          \u{2066}\u{2800}\u{3000}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{e000}\u{e0041}"
                .chars()
        {
            let quoted = ResourceCommand::quote(&format!("a{invisible}b"));
            assert!(quoted.is_ascii(), "{quoted}");
            let json = Json::parse(&quoted).unwrap();
            assert_eq!(
                json.view().as_str().unwrap(),
                format!("a{invisible}b"),
                "{quoted}"
            );
        }
        assert_eq!(ResourceCommand::quote("größe\n\"'/日本"), r#""größe\n\"'/日本""#);
    }

    #[test]
    fn approval_of_a_source_does_not_allow_to_delete_it() {
        let [file, source] = [ResourceCommand::file, ResourceCommand::source].map(|of| of("/f".to_owned()));
        assert_ne!(file.digest(), source.digest());
    }

    #[test]
    fn masked_command_hides_secrets_and_keeps_its_digest() {
        let mut secrets = SecretStrings::default();
        secrets.add("hunter22");
        let mut secret = command();
        secret.argv.push("--token=hunter22".to_owned());
        let key = EntryKey::live("a".parse().unwrap());
        let refused = UnapprovedCommand::new(&key, secret.clone(), &secrets);
        assert!(refused.is_masked());
        assert!(!refused.masked.to_string().contains("hunter22"));
        assert_eq!(refused.digest, secret.digest());
    }
}
