//! Calls that change the disk fail as planned, and leave a record of what was done in which order.

use crate::counts::Call;
use rustix::io::Errno;
use std::io;
use std::sync::{Mutex, MutexGuard};

/// What to do at which call.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Plan>);

#[derive(Default)]
struct Plan {
    record: Vec<String>,
    at: Option<usize>,
    how: How,
    errno: Option<Errno>,
    hook: Option<(usize, Box<dyn FnOnce() + Send>)>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum How {
    /// Without effect, once.
    #[default]
    Before,
    /// It takes effect and says that it failed, once.
    After,
    /// As if the process died there: it and all that follow have no effect.
    Dead,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

impl Faults {
    /// From now on, the call of this number fails.
    pub(super) fn plan(&self, at: usize, how: How) {
        let mut plan = self.lock();
        plan.record.clear();
        plan.at = Some(at);
        plan.how = how;
    }

    /// From now on, the call of this number has no effect and fails with this error.
    pub(super) fn refuse(&self, at: usize, errno: Errno) {
        self.plan(at, How::Before);
        self.lock().errno = Some(errno);
    }

    /// Before the call of this number from now on, something else happens.
    pub(super) fn interrupt(&self, at: usize, hook: impl FnOnce() + Send + 'static) {
        let mut plan = self.lock();
        plan.record.clear();
        plan.hook = Some((at, Box::new(hook)));
    }

    /// What was done since the last look.
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
            let dead = plan.how == How::Dead && plan.at.is_some_and(|at| number >= at);
            let fault = (dead || plan.at == Some(number)).then_some(plan.how);
            (fault, plan.errno.unwrap_or(Errno::IO), hook)
        };
        if let Some(hook) = hook {
            hook();
        }
        let failed = || io::Error::from(errno);
        match fault {
            None => run(),
            Some(How::Before | How::Dead) => Err(failed()),
            Some(How::After) => {
                run()?;
                Err(failed())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap()
    }
}
