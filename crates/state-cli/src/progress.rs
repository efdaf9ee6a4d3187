//! A sign of life on stderr while something takes long: plain text, on a terminal only, gone when it is over.

use crate::output::{Output, to_stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it says how long it took so far. What is quicker says nothing.
const TICK: Duration = Duration::from_secs(2);

/// Tells until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to tell, if the command may take long, asks nothing meanwhile, and somebody looks.
    pub(crate) fn start(output: &Output, doing: Option<&'static str>) -> Self {
        let doing = doing.filter(|_| output.shows_progress());
        Self {
            running: doing.and_then(|doing| {
                let (sender, receiver) = channel();
                let tell = move || tell(doing, TICK, &receiver, &mut to_stderr);
                let thread = std::thread::Builder::new().spawn(tell).ok()?;
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
                // It only told.
            }
        }
    }
}

/// Overwrites one line until the sender is gone, then wipes it.
fn tell(doing: &str, tick: Duration, ended: &Receiver<()>, say: &mut dyn FnMut(&str)) {
    let mut width = 0;
    let mut ticks = 0;
    while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        ticks += 1;
        let line = format!("{doing}: {} s", tick.as_secs().saturating_mul(ticks));
        width = line.len();
        say(&format!("\r{line}"));
    }
    if width > 0 {
        say(&format!("\r{:width$}\r", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::{TICK, tell};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_quick_says_nothing() {
        let (sender, receiver) = channel();
        drop(sender);
        let mut said = String::new();
        tell("verifying", TICK, &receiver, &mut |text| said.push_str(text));
        assert_eq!(said, "");
    }

    #[test]
    fn what_takes_long_is_told_on_one_line_that_goes_in_the_end() {
        let (sender, receiver) = channel();
        let mut sender = Some(sender);
        let mut said = Vec::new();
        tell("verifying", Duration::ZERO, &receiver, &mut |text| {
            said.push(text.to_owned());
            if said.len() == 3 {
                sender.take();
            }
        });
        assert_eq!(
            said[..3],
            ["\rverifying: 0 s", "\rverifying: 0 s", "\rverifying: 0 s"]
        );
        assert_eq!(said[3..], [format!("\r{:14}\r", "")]);
    }
}
