//! Injects faults into calls that change the disk, and records their order.

use crate::counts::Call;
use rustix::io::Errno;
use std::io;
use std::sync::{Mutex, MutexGuard};

/// The planned faults, and the calls that were made.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Plan>);

#[derive(Default)]
struct Plan {
    record: Vec<String>,
    at: Option<usize>,
    how: FaultKind,
    errno: Option<Errno>,
    hook: Option<(usize, Box<dyn FnOnce() + Send>)>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The call has no effect, once.
    #[default]
    Before,
    /// The call takes effect and returns an error, once.
    After,
    /// As if the process crashed: this call and all later calls have no effect.
    Crash,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

impl Faults {
    /// Makes the call with this number fail, counted from now.
    pub(super) fn plan(&self, at: usize, how: FaultKind) {
        let mut plan = self.lock();
        plan.record.clear();
        plan.at = Some(at);
        plan.how = how;
    }

    /// Makes the call with this number fail with this error and without effect, counted from now.
    pub(super) fn refuse(&self, at: usize, errno: Errno) {
        self.plan(at, FaultKind::Before);
        self.lock().errno = Some(errno);
    }

    /// Runs the hook before the call with this number, counted from now.
    pub(super) fn interrupt(&self, at: usize, hook: impl FnOnce() + Send + 'static) {
        let mut plan = self.lock();
        plan.record.clear();
        plan.hook = Some((at, Box::new(hook)));
    }

    /// Returns the calls since the last use of this function.
    pub(super) fn record(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().record)
    }

    pub(crate) fn run<T>(
        &self,
        call: Call,
        object: &str,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let (fault, errno, hook) = {
            let mut plan = self.lock();
            let number = plan.record.len();
            let file = object.rsplit('/').next().unwrap_or_default();
            let call = match call {
                Call::Write(_) => "write".to_owned(),
                Call::Preallocate(_) => "preallocate".to_owned(),
                other => format!("{other:?}").to_lowercase(),
            };
            plan.record.push(format!("{call} {file}"));
            let hook = match plan.hook.take() {
                Some((at, hook)) if at == number => Some(hook),
                other => {
                    plan.hook = other;
                    None
                }
            };
            let dead = plan.how == FaultKind::Crash && plan.at.is_some_and(|at| number >= at);
            let fault = (dead || plan.at == Some(number)).then_some(plan.how);
            (fault, plan.errno.unwrap_or(Errno::IO), hook)
        };
        if let Some(hook) = hook {
            hook();
        }
        let failed = || io::Error::from(errno);
        match fault {
            None => run(),
            Some(FaultKind::Before | FaultKind::Crash) => Err(failed()),
            Some(FaultKind::After) => {
                run()?;
                Err(failed())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap()
    }
}
