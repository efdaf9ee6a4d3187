//! How a run goes, told on stderr while it goes: what was done, line by line, and on a terminal a block below that says
//! what is in flight.

use super::progress_view::ProgressView;
use crate::context::Context;
use crate::output::to_stderr;
use state_engine::{Event, Observer};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the block is drawn anew.
const TICK: Duration = Duration::from_millis(250);

enum Notice {
    /// So many steps follow.
    Begin(usize),
    Event(Box<Event>),
    Say(&'static str),
    End,
}

/// Tells until it is dropped. With `--json` it tells nothing.
pub(super) struct LiveProgress {
    sender: Option<Sender<Notice>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LiveProgress {
    /// Begins to listen.
    pub(super) fn start(context: &Context) -> Self {
        let quiet = Self {
            sender: None,
            thread: Mutex::default(),
        };
        if context.output.json {
            return quiet;
        }
        let colors = context.output.terminal.color_stderr;
        let progress_view = ProgressView::new(context.environment.clock.clone(), colors);
        let width = context.output.shows_progress().then_some(width as fn() -> usize);
        let (sender, receiver) = channel();
        let tell = move || tell(progress_view, &receiver, width, &mut to_stderr);
        match std::thread::Builder::new().spawn(tell) {
            Ok(thread) => Self {
                sender: Some(sender),
                thread: Mutex::new(Some(thread)),
            },
            // Nobody hears of it: that keeps nothing from being done.
            Err(_) => quiet,
        }
    }

    pub(super) fn begin(&self, steps: usize) {
        self.notice(Notice::Begin(steps));
    }

    pub(super) fn say(&self, said: &'static str) {
        self.notice(Notice::Say(said));
    }

    /// Wipes the block. All that was told is on the screen when it returns.
    pub(super) fn end(&self) {
        self.notice(Notice::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            // It only told.
        }
    }

    fn notice(&self, notice: Notice) {
        if let Some(sender) = &self.sender
            && sender.send(notice).is_err()
        {
            // It ended already.
        }
    }
}

impl Observer for LiveProgress {
    fn event(&self, event: &Event) {
        self.notice(Notice::Event(Box::new(event.clone())));
    }
}

impl Drop for LiveProgress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Prints what is told; with a width, the block too.
fn tell(
    mut progress_view: ProgressView,
    notices: &Receiver<Notice>,
    width: Option<fn() -> usize>,
    say: &mut dyn FnMut(&str),
) {
    let mut drawn = 0;
    loop {
        let notice = match notices.recv_timeout(TICK) {
            Ok(notice) => Some(notice),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Notice::End),
        };
        let ends = matches!(notice, Some(Notice::End));
        let lines = match notice {
            Some(Notice::Begin(steps)) => {
                progress_view.begin(steps);
                String::new()
            }
            Some(Notice::Event(event)) => progress_view.hear(&event),
            Some(Notice::Say(said)) if progress_view.is_running() => format!("{said}\n"),
            // Before it began the error that follows says all.
            Some(Notice::Say(_) | Notice::End) | None => String::new(),
        };
        let block = match width {
            Some(width) if !ends => progress_view.block(width()),
            _ => Vec::new(),
        };
        let mut text = match drawn {
            0 => String::new(),
            // To where the block begins, and wipe what is below.
            lines => format!("\x1b[{lines}F\x1b[J"),
        };
        text.push_str(&lines);
        for line in &block {
            text.push_str(line);
            text.push('\n');
        }
        drawn = block.len();
        if !text.is_empty() {
            say(&text);
        }
        if ends {
            return;
        }
    }
}

/// How many characters a line of the terminal takes.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    // A terminal that doesn't know says 0.
    if columns == 0 { 80 } else { columns.max(20) }
}

#[cfg(test)]
mod tests {
    use super::{Notice, tell};
    use crate::commands::deploy::progress_view::ProgressView;
    use state_core::testkit::clock::ManualClock;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    fn describe(notices: Vec<Notice>, width: Option<fn() -> usize>) -> String {
        let (sender, receiver) = channel();
        for notice in notices {
            sender.send(notice).unwrap();
        }
        drop(sender);
        let mut said = String::new();
        let progress_view = ProgressView::new(Arc::new(ManualClock::default()), false);
        tell(progress_view, &receiver, width, &mut |text| said.push_str(text));
        said
    }

    #[test]
    fn off_a_terminal_lines_are_plain_and_there_is_no_block() {
        let said = describe(vec![Notice::Begin(3), Notice::Say("stopping")], None);
        assert_eq!(said, "stopping\n");
    }

    #[test]
    fn the_block_is_drawn_in_place_below_the_lines_and_goes_in_the_end() {
        let said = describe(vec![Notice::Begin(3), Notice::Say("stopping")], Some(|| 80));
        assert!(said.starts_with("0 of 3 done"), "{said:?}");
        assert!(said.contains("\x1b[1F\x1b[Jstopping\n0 of 3 done"), "{said:?}");
        assert!(said.ends_with("\x1b[1F\x1b[J"), "{said:?}");
    }
}
