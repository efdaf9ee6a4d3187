//! Prints the progress of a run on stderr: one line per finished step, and on a terminal a block below them with the
//! steps in flight.

use super::progress_view::ProgressView;
use crate::context::Context;
use crate::output::to_stderr;
use state_engine::{Event, Observer};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the progress block is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// A message to the printing thread.
enum Notice {
    /// The run begins, with this many steps.
    Begin(usize),
    /// An event of the engine.
    Event(Box<Event>),
    /// A line of text about a signal.
    Say(&'static str),
    /// The run ended: remove the progress block and stop.
    End,
}

/// Prints progress on its own thread until dropped. Prints nothing with `--json`.
pub(super) struct LiveProgress {
    sender: Option<Sender<Notice>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LiveProgress {
    /// Starts the printing thread.
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
        let print = move || print_notices(progress_view, &receiver, width, &mut to_stderr);
        match std::thread::Builder::new().spawn(print) {
            Ok(thread) => Self {
                sender: Some(sender),
                thread: Mutex::new(Some(thread)),
            },
            // Without a thread there is no progress display, but the run must go on.
            Err(_) => quiet,
        }
    }

    pub(super) fn begin(&self, steps: usize) {
        self.notice(Notice::Begin(steps));
    }

    pub(super) fn say(&self, text: &'static str) {
        self.notice(Notice::Say(text));
    }

    /// Removes the progress block. All earlier lines are printed when this function returns, so that they come before the
    /// report.
    pub(super) fn end(&self) {
        self.notice(Notice::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            // A panic of the printing thread must not fail the run: only the display is lost.
        }
    }

    fn notice(&self, notice: Notice) {
        if let Some(sender) = &self.sender
            && sender.send(notice).is_err()
        {
            // The printing thread has already ended.
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

/// Prints a line for each notice, and the progress block if the terminal's width is given. Returns at [`Notice::End`].
fn print_notices(
    mut progress_view: ProgressView,
    notices: &Receiver<Notice>,
    width: Option<fn() -> usize>,
    print: &mut dyn FnMut(&str),
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
            Some(Notice::Event(event)) => progress_view.handle(&event),
            Some(Notice::Say(text)) if progress_view.is_running() => format!("{text}\n"),
            // Before the run begins, an interrupt ends the command with an error: no other line is needed.
            Some(Notice::Say(_) | Notice::End) | None => String::new(),
        };
        let block = match width {
            Some(width) if !ends => progress_view.block(width()),
            _ => Vec::new(),
        };
        let mut text = match drawn {
            0 => String::new(),
            // Move the cursor to the first line of the block, and erase everything below.
            lines => format!("\x1b[{lines}F\x1b[J"),
        };
        text.push_str(&lines);
        for line in &block {
            text.push_str(line);
            text.push('\n');
        }
        drawn = block.len();
        if !text.is_empty() {
            print(&text);
        }
        if ends {
            return;
        }
    }
}

/// The width of the terminal in characters.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    // Terminals that don't know their size report 0.
    if columns == 0 { 80 } else { columns.max(20) }
}

#[cfg(test)]
mod tests {
    use super::{Notice, print_notices};
    use crate::commands::deploy::progress_view::ProgressView;
    use state_core::testkit::clock::ManualClock;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    fn printed(notices: Vec<Notice>, width: Option<fn() -> usize>) -> String {
        let (sender, receiver) = channel();
        for notice in notices {
            sender.send(notice).unwrap();
        }
        drop(sender);
        let mut text = String::new();
        let progress_view = ProgressView::new(Arc::new(ManualClock::default()), false);
        print_notices(progress_view, &receiver, width, &mut |part| text.push_str(part));
        text
    }

    #[test]
    fn output_without_terminal_has_no_progress_block() {
        let said = printed(vec![Notice::Begin(3), Notice::Say("stopping")], None);
        assert_eq!(said, "stopping\n");
    }

    #[test]
    fn progress_block_is_redrawn_below_lines_and_removed() {
        let said = printed(vec![Notice::Begin(3), Notice::Say("stopping")], Some(|| 80));
        assert!(said.starts_with("0 of 3 done"), "{said:?}");
        assert!(said.contains("\x1b[1F\x1b[Jstopping\n0 of 3 done"), "{said:?}");
        assert!(said.ends_with("\x1b[1F\x1b[J"), "{said:?}");
    }
}
