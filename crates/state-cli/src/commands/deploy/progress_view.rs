//! The progress of a run: counts finished and failed steps, and lists the steps in flight.

use super::step::StepView;
use super::tree;
use crate::render::{Page, Style, visible};
use crate::settings::HIDE;
use state_core::{Clock, EntryKey, LogLevel, LogLine};
use state_engine::{Event, Step};
use std::sync::Arc;
use std::time::Duration;

/// How many steps in flight the progress block lists.
const NAMED: usize = 6;

/// The progress of a run.
pub(super) struct ProgressView {
    clock: Arc<dyn Clock>,
    color: bool,
    /// The number of planned steps; none before the run begins.
    total: Option<usize>,
    began: Duration,
    done: usize,
    failed: usize,
    in_flight: Vec<(EntryKey, &'static str, Duration)>,
}

impl ProgressView {
    pub(super) fn new(clock: Arc<dyn Clock>, color: bool) -> Self {
        Self {
            began: clock.elapsed(),
            clock,
            color,
            total: None,
            done: 0,
            failed: 0,
            in_flight: Vec::new(),
        }
    }

    /// Begins a run with this many steps.
    pub(super) fn begin(&mut self, steps: usize) {
        self.total = Some(steps);
        self.began = self.clock.elapsed();
    }

    /// Whether the run has begun.
    pub(super) const fn is_running(&self) -> bool {
        self.total.is_some()
    }

    /// Records an event and returns the lines to print for it.
    pub(super) fn handle(&mut self, event: &Event) -> String {
        let mut page = Page::new(self.color);
        match event {
            Event::Begun(step) => {
                let begun = (step.key.clone(), step.op.sign(), self.clock.elapsed());
                self.in_flight.push(begun);
            }
            Event::Committed(step) => {
                let took = self.take_in_flight(&step.key);
                if step.is_change() {
                    self.done += 1;
                    done(&mut page, step, took);
                }
            }
            Event::Failed {
                step,
                reasons,
                pending,
            } => {
                self.take_in_flight(&step.key);
                self.failed += 1;
                let failed = format!("{} of {}: {}", step.op, step.key, reasons.join("; "));
                page.labelled(Style::Bad, "failed:", failed);
                if let Some(id) = pending {
                    page.line(format_args!(
                        "  outcome unknown: the operation stays pending as {id}"
                    ));
                }
            }
            Event::Skipped { address, reason } => {
                page.labelled(Style::Warn, "skipped:", format_args!("{address}: {reason}"));
            }
            Event::Pending(operation) => {
                let begun = format!("{} of {}, {}", operation.op, operation.target, operation.id);
                let text = format_args!("{begun}: outcome unknown");
                page.labelled(Style::Warn, "pending:", text);
            }
            Event::Log(line) if is_shown(line) => print_log(&mut page, line),
            // The final report lists resolved operations.
            _ => {}
        }
        page.finish()
    }

    /// Removes a step from the steps in flight, and returns how long it took.
    fn take_in_flight(&mut self, key: &EntryKey) -> Option<Duration> {
        let place = self
            .in_flight
            .iter()
            .position(|(in_flight, ..)| in_flight == key)?;
        let (.., since) = self.in_flight.remove(place);
        Some(self.clock.elapsed().saturating_sub(since))
    }

    /// The lines of the progress block: the counts, and the steps in flight with their durations. Empty before the run
    /// begins.
    pub(super) fn block(&self, width: usize) -> Vec<String> {
        let Some(total) = self.total else {
            return Vec::new();
        };
        let now = self.clock.elapsed();
        let seconds = |since: Duration| now.saturating_sub(since).as_secs();
        let mut counts = format!("{} of {total} done", self.done);
        if !self.in_flight.is_empty() {
            counts.push_str(&format!(", {} in flight", self.in_flight.len()));
        }
        if self.failed > 0 {
            counts.push_str(&format!(", {} failed", self.failed));
        }
        counts.push_str(&format!(", {} s", seconds(self.began)));
        let named = self.in_flight.iter().take(NAMED);
        let named = named.map(|(key, sign, since)| format!("  {sign:<2} {key}  {} s", seconds(*since)));
        let more = self.in_flight.len().saturating_sub(NAMED);
        let rest = (more > 0).then(|| format!("  … and {more} more"));
        let lines = std::iter::once(counts).chain(named).chain(rest);
        lines
            .map(|line| visible(&line).chars().take(width).collect())
            .collect()
    }
}

fn done(page: &mut Page, step: &Step, took: Option<Duration>) {
    let view = StepView::of(step, HIDE);
    page.styled(tree::style(&view), &format!("{:<2}", view.sign()));
    page.styled(Style::Plain, &format!(" {}", view.name()));
    page.styled(Style::Dim, &format!(" ({})", view.kind));
    match took.filter(|took| *took >= Duration::from_secs(1)) {
        Some(took) => page.line(format_args!("  {} s", took.as_secs())),
        None => page.space("\n"),
    }
}

/// Whether a log line is shown. Most lines of the engine are hidden, because the events already report its steps.
fn is_shown(line: &LogLine) -> bool {
    match line.source.as_str() {
        "engine" => line.level == LogLevel::Warning,
        _ => line.level >= LogLevel::Info,
    }
}

fn print_log(page: &mut Page, line: &LogLine) {
    let about = line.address.as_ref().map(|address| format!("{address}: "));
    let about = about.unwrap_or_default();
    let mut message = line.message.lines();
    page.styled(Style::Dim, "   ");
    page.line(format_args!("{about}{}", message.next().unwrap_or_default()));
    for more in message {
        page.block(&format!("   {more}"));
    }
}

#[cfg(test)]
mod tests {
    use super::ProgressView;
    use state_core::backend::MemoryBackend;
    use state_core::head::SealingPolicy;
    use state_core::testkit::clock::ManualClock;
    use state_core::{LogLevel, LogLine, StackName, Timestamp};
    use state_engine::program::Program;
    use state_engine::{Engine, Event, Operation, Run, builtin};
    use state_manager::{Actor, Environment, Stacks};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A program with one resource that is created, one that fails, and one that depends on the failed one.
    const PROGRAM: &str = r#"
resources:
  a: { kind: "random:id" }
  bad: { kind: command, options: { depends_on: [a] }, inputs: { create: [sh, -c, "exit 75"] } }
  late: { kind: "random:id", options: { depends_on: [bad] } }
"#;

    /// The events of a run of the engine.
    async fn events() -> Vec<Event> {
        let environment = Environment::system(Actor::default());
        let stacks = Stacks::new(Arc::new(MemoryBackend::new()), environment.clone());
        let name = StackName::new(StackName::DEFAULT_PROJECT, "x").unwrap();
        stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .unwrap();
        let program = Program::parse("p", PROGRAM.as_bytes()).unwrap();
        let configured = program.configure(BTreeMap::new(), None).await.unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let mut run = Run::new(builtin::registry(&environment, "/".as_ref()));
        run.observer = Arc::new(move |event: &Event| listener.lock().unwrap().push(event.clone()));
        run.options.continue_on_error = true;
        let operation = Operation::Update(Box::new(configured.into_source().unwrap()));
        let engine = Engine::new(stacks, environment);
        engine.run(&name, operation, run).await.unwrap();
        heard.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn each_step_is_printed_once_and_counted() {
        let clock = Arc::new(ManualClock::default());
        let mut progress_view = ProgressView::new(clock.clone(), false);
        progress_view.begin(3);
        let (mut printed, mut most) = (String::new(), 0);
        for event in events()
            .await
            .iter()
            .filter(|event| !matches!(event, Event::Log(_)))
        {
            printed.push_str(&progress_view.handle(event));
            most = most.max(progress_view.in_flight.len());
            if matches!(event, Event::Begun(_)) {
                clock.advance(Duration::from_secs(2));
            }
        }
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], "+  a (random:id)  2 s");
        assert!(lines[1].starts_with("failed: create of bad: "), "{printed}");
        assert_eq!(lines[2], "skipped: late: its dependency bad failed");
        assert_eq!(lines.len(), 3, "{printed}");
        assert_eq!(
            (most, progress_view.in_flight.len()),
            (1, 0),
            "a finished step isn't in flight"
        );
        assert_eq!(progress_view.block(80), ["1 of 3 done, 1 failed, 4 s"]);
    }

    #[test]
    fn provider_logs_and_engine_warnings_are_shown() {
        let mut progress_view = ProgressView::new(Arc::new(ManualClock::default()), false);
        let mut handle = |source: &str, level, message: &str| {
            let line = LogLine {
                source: source.to_owned(),
                ..LogLine::new(Timestamp::new("2026-01-01T00:00:00Z"), level, message)
            };
            progress_view.handle(&Event::Log(line.about("page".parse().unwrap())))
        };
        assert_eq!(
            handle("command", LogLevel::Info, "one\ntwo"),
            "   page: one\n     two\n"
        );
        assert_eq!(handle("command", LogLevel::Debug, "detail"), "");
        assert_eq!(handle("engine", LogLevel::Info, "create of page"), "");
        assert_eq!(handle("engine", LogLevel::Warning, "slow"), "   page: slow\n");
        assert_eq!(
            handle("command", LogLevel::Info, "\x1b[2J"),
            "   page: \\u{1b}[2J\n"
        );
    }

    #[test]
    fn progress_block_lists_steps_in_flight_within_width() {
        let clock = Arc::new(ManualClock::default());
        let mut progress_view = ProgressView::new(clock.clone(), false);
        assert!(progress_view.block(80).is_empty(), "no run has begun");
        progress_view.begin(12);
        for number in 0..8 {
            let key = state_core::EntryKey::live(format!("page{number}").parse().unwrap());
            progress_view
                .in_flight
                .push((key, "+", progress_view.clock.elapsed()));
        }
        clock.advance(Duration::from_secs(3));
        let block = progress_view.block(80);
        assert_eq!(block[0], "0 of 12 done, 8 in flight, 3 s");
        assert_eq!(block[1], "  +  page0  3 s");
        assert_eq!(block.last().unwrap(), "  … and 2 more");
        assert!(
            progress_view
                .block(20)
                .iter()
                .all(|line| line.chars().count() <= 20)
        );
    }
}
