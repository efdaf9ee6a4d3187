//! The command `config`: the settings in effect and their sources.

use crate::context::{CommandResult, Context};
use crate::settings::{Origin, Setting, shown};
use serde::Serialize;

/// All subcommands of `statectl config`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the settings in effect
    ///
    /// Settings come from flags, the environment, `statectl.toml` and the user's configuration file, in this order.
    Show {
        /// Also show the source of each setting
        #[arg(long)]
        origin: bool,
    },
}

#[derive(Serialize)]
struct ConfigReport {
    files: Vec<String>,
    settings: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    key: &'static str,
    value: Option<String>,
    origin: &'static str,
    /// Name of the flag or environment variable, or path of the file.
    source: Option<String>,
    profile: Option<String>,
}

impl Line {
    fn new(key: &'static str, flag: &str, variable: &str, setting: &Setting) -> Self {
        let (origin, source, profile) = match &setting.origin {
            Origin::Default => ("default", None, None),
            Origin::Flag => ("flag", Some(flag.to_owned()), None),
            Origin::Environment => ("environment", Some(variable.to_owned()), None),
            Origin::File { path, profile, .. } => ("file", Some(path.clone()), profile.clone()),
        };
        Self {
            key,
            value: setting.value.as_deref().map(shown),
            origin,
            source,
            profile,
        }
    }

    fn describe(&self) -> String {
        match (&self.source, &self.profile) {
            (None, _) => "not set".to_owned(),
            (Some(source), None) => format!("{} {source}", self.origin),
            (Some(source), Some(profile)) => format!("{} {source}, profile {profile}", self.origin),
        }
    }
}

/// Runs a subcommand of `config`.
pub(crate) fn run(context: &Context, command: &Command) -> CommandResult {
    let Command::Show { origin } = command;
    let settings = &context.settings.sources;
    let report = ConfigReport {
        files: settings.files.clone(),
        settings: vec![
            Line::new("profile", "--profile", "STATECTL_PROFILE", &settings.profile),
            Line::new("backend", "--backend", "STATECTL_BACKEND", &settings.backend),
            Line::new("stack", "--stack", "STATECTL_STACK", &settings.stack),
        ],
    };
    context.report("config", &report, Vec::new(), |page| {
        for line in &report.settings {
            let value = line.value.as_deref().unwrap_or("-");
            if *origin {
                page.line(format_args!("{} = {value}  # {}", line.key, line.describe()));
            } else {
                page.line(format_args!("{} = {value}", line.key));
            }
        }
    })
}
