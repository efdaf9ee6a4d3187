//! The progress line of a long-running command: on stderr, on a terminal only, erased when the command ends.

use crate::output::{Output, to_stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the line is updated. Commands that end earlier print no line.
const TICK: Duration = Duration::from_secs(2);

/// Prints the progress line until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to print if the command has a description and stderr is a terminal.
    pub(crate) fn start(output: &Output, doing: Option<&'static str>) -> Self {
        let doing = doing.filter(|_| output.shows_progress());
        Self {
            running: doing.and_then(|doing| {
                let (sender, receiver) = channel();
                let print = move || print_until_end(doing, TICK, &receiver, &mut to_stderr);
                let thread = std::thread::Builder::new().spawn(print).ok()?;
                Some((sender, thread))
            }),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.running.take() {
            drop(sender);
            if thread.join().is_err() {
                // A panic of the printing thread must not fail the command: only the display is lost.
            }
        }
    }
}

/// Updates one line until the sender is dropped, then erases the line.
fn print_until_end(doing: &str, tick: Duration, ended: &Receiver<()>, print: &mut dyn FnMut(&str)) {
    let mut width = 0;
    let mut ticks = 0;
    while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        ticks += 1;
        let line = format!("{doing}: {} s", tick.as_secs().saturating_mul(ticks));
        width = line.len();
        print(&format!("\r{line}"));
    }
    if width > 0 {
        print(&format!("\r{:width$}\r", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::{TICK, print_until_end};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn quick_command_prints_no_progress() {
        let (sender, receiver) = channel();
        drop(sender);
        let mut printed = String::new();
        print_until_end("verifying", TICK, &receiver, &mut |text| printed.push_str(text));
        assert_eq!(printed, "");
    }

    #[test]
    fn slow_command_updates_one_line_and_erases_it() {
        let (sender, receiver) = channel();
        let mut sender = Some(sender);
        let mut printed = Vec::new();
        print_until_end("verifying", Duration::ZERO, &receiver, &mut |text| {
            printed.push(text.to_owned());
            if printed.len() == 3 {
                sender.take();
            }
        });
        assert_eq!(
            printed[..3],
            ["\rverifying: 0 s", "\rverifying: 0 s", "\rverifying: 0 s"]
        );
        assert_eq!(printed[3..], [format!("\r{:14}\r", "")]);
    }
}
