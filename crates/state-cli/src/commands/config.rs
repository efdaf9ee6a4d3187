//! `config`: which settings are in force, and where they come from.

use crate::context::{CommandResult, Context};
use crate::settings::{Origin, Setting};
use serde::Serialize;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the settings in force, from flags, environment, `statectl.toml` and the user's configuration.
    Show {
        /// Say where each one comes from.
        #[arg(long)]
        origin: bool,
    },
}

#[derive(Serialize)]
struct Shown {
    files: Vec<String>,
    settings: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    key: &'static str,
    value: Option<String>,
    origin: &'static str,
    /// The flag, the variable or the file.
    source: Option<String>,
    profile: Option<String>,
}

impl Line {
    fn new(key: &'static str, flag: &str, variable: &str, setting: &Setting) -> Self {
        let (origin, source, profile) = match &setting.origin {
            Origin::Default => ("default", None, None),
            Origin::Flag => ("flag", Some(flag.to_owned()), None),
            Origin::Environment => ("environment", Some(variable.to_owned()), None),
            Origin::File { path, profile } => ("file", Some(path.clone()), profile.clone()),
        };
        Self {
            key,
            value: setting.value.clone(),
            origin,
            source,
            profile,
        }
    }

    fn describe(&self) -> String {
        match (&self.source, &self.profile) {
            (None, _) => "nobody set it".to_owned(),
            (Some(source), None) => format!("{} {source}", self.origin),
            (Some(source), Some(profile)) => format!("{} {source}, profile {profile}", self.origin),
        }
    }
}

/// Runs one of them.
pub(crate) fn run(context: &Context, command: &Command) -> CommandResult {
    let Command::Show { origin } = command;
    let settings = &context.settings.sources;
    let shown = Shown {
        files: settings.files.clone(),
        settings: vec![
            Line::new("profile", "--profile", "STATECTL_PROFILE", &settings.profile),
            Line::new("backend", "--backend", "STATECTL_BACKEND", &settings.backend),
            Line::new("stack", "--stack", "STATECTL_STACK", &settings.stack),
        ],
    };
    context.report("config", &shown, Vec::new(), |page| {
        for line in &shown.settings {
            let value = line.value.as_deref().unwrap_or("-");
            if *origin {
                page.line(format_args!("{} = {value}  # {}", line.key, line.describe()));
            } else {
                page.line(format_args!("{} = {value}", line.key));
            }
        }
    })
}
